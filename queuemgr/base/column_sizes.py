"""What columns hold, for checks before something is stored."""

MAX_INTEGER = 2**31 - 1
"""The largest number in an integer column."""

MAX_LIMIT_KEY = 255
"""Characters of the name of a limit."""
