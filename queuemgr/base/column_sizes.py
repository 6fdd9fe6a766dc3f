"""What columns hold, for checks before something is stored."""

MAX_INTEGER = 2**31 - 1
"""The largest number in an integer column, on either database, and so the largest that is accepted as one
anywhere: by commands, the API, pages, flows and settings."""

MAX_ID = 2**63 - 1
"""The largest number of a row."""

MAX_SECONDS = 100 * 365 * 86_400.0
MAX_DAYS = 100 * 365.0
"""The longest times that are accepted: a hundred years, which can be added to any date, and waited for."""

MAX_FLOW_NAME = 200
"""Characters of the name of a flow: the dotted name of a task fits."""

MAX_LIMIT_KEY = 255
"""Characters of the name of a limit."""

LONGEST_ACTOR = 255
"""Characters of the name of who did something: a project's people may log in by their e-mail addresses."""
