"""The published proof: a fleet of real processes, faults at random times, and a checker that knows
nothing of the code it checks. `python -m proof --help` says how to run it."""
