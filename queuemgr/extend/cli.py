"""For an application's commands: settings as options, output, progress bars, and who ran the command."""

from queuemgr.cli.arguments import positive
from queuemgr.cli.config_options import add as add_settings
from queuemgr.cli.config_options import apply as apply_settings
from queuemgr.cli.output import by_command, show, table
from queuemgr.cli.progress_bar import shown as shows_progress
from queuemgr.cli.progress_bar import tracked
from queuemgr.operations.audited_enqueue import audited_enqueue
from queuemgr.operations.users import ensure_superuser

__all__ = [
    "add_settings",
    "apply_settings",
    "audited_enqueue",
    "by_command",
    "ensure_superuser",
    "positive",
    "show",
    "shows_progress",
    "table",
    "tracked",
]
