"""The HTTP API: what the commands and the admin can do, for programs.

A file per subject. Routes read what they were given, ask whether the caller may, and call the same
verbs as everything else; what goes wrong is told as a problem (RFC 9457) in `problems.py`.
"""
