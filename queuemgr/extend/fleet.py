"""For a command that runs a whole fleet on this machine, with programs of its own beside it.

    with running(FleetSpec(slots=8), also=[Program("web", command)]) as fleet:
        drained = drain(self.stdout, check=fleet.check)
        print_summary(drained, began, self.stdout)

`drain` follows the work until none is left, or (exit code `LEFT`) what is left is blocked, and returns a
`Drained`; `began` is `database_now()` from before.
`COULD_NOT_RUN` is the exit code where nothing could start.
`celery()` begins a Celery command; `free_port` and `wait_for_port` are for
programs that serve; `why_away` says why the database failed. `QueueSettings` and `phase_settings_group()`
are the settings such a command offers as options. `environment_of(["web"])` is for a program beside the
fleet: it makes the secrets empty that `SLUICE_PROGRAM_SECRETS` does not give it.
"""

from queuemgr.base.config import QueueSettings
from queuemgr.base.program_secrets import environment_of
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.unreachable import why_away
from queuemgr.cli.drain import Drained, drain
from queuemgr.cli.exit_codes import COULD_NOT as COULD_NOT_RUN
from queuemgr.cli.exit_codes import LEFT
from queuemgr.cli.run import print_summary
from queuemgr.local.local_fleet import FleetSpec, celery, running
from queuemgr.local.private_servers import free_port, wait_for_port
from queuemgr.local.supervisor import Program
from queuemgr.scheduling.phase_settings import phase_settings_group

__all__ = [
    "COULD_NOT_RUN", "LEFT", "Drained", "FleetSpec", "Program", "QueueSettings", "celery", "database_now",
    "drain", "environment_of", "free_port", "phase_settings_group", "print_summary", "running",
    "wait_for_port", "why_away",
]  # fmt: skip
