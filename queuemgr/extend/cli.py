"""For an application's commands.

- `add_settings(parser, group)` adds an option for each setting, `apply_settings(options)` applies those
  given, to this process and those it starts; `positive` and `port` are argparse types.
- `table` and `show` print a table; `tracked` draws a progress bar on a terminal, and `shows_progress`
  says whether one can be drawn.
- `by_command()` is the person running the command, as audit entries name them; `audited_enqueue` records
  what they enqueue, and `first_superuser` the account they create; `has_password` checks one.
"""

from queuemgr.cli.arguments import port, positive
from queuemgr.cli.config_options import add as add_settings
from queuemgr.cli.config_options import apply as apply_settings
from queuemgr.cli.output import by_command, show, table
from queuemgr.cli.progress_bar import shown as shows_progress
from queuemgr.cli.progress_bar import tracked
from queuemgr.operations.enqueueing import audited_enqueue
from queuemgr.operations.users import first_superuser, has_password

__all__ = [
    "add_settings", "apply_settings", "audited_enqueue", "by_command", "first_superuser", "has_password",
    "port", "positive", "show", "shows_progress", "table", "tracked",
]  # fmt: skip
