"""The published proof: a fleet of real processes, random faults, and a checker that imports nothing of the
code it checks.

Run it with `python -m proof`; `--help` lists the options.
"""
