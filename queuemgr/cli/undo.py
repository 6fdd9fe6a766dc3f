from __future__ import annotations

from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.cli.arguments import add_reason, positive
from queuemgr.cli.output import by_command
from queuemgr.models import AuditEntry
from queuemgr.operations import undo
from queuemgr.operations.audit_log import in_words

NAME = "undo"
HELP = "undo one change of a limit, pause, queue, retry policy or priority: restore its old values"
EXAMPLES = """
  queue audit --actor ann --since "2026-11-28 06:00"
  queue undo 1042 --reason "meant for another host"
  exit codes: 0 undone, 3 refused (what has changed since, and by whom)
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("id", type=positive, help="the audit entry's number in `queue audit`")
    add_reason(parser)


def run(options: dict[str, Any], out: Any) -> int:
    entry = AuditEntry.objects.filter(pk=options["id"]).first()
    if entry is None:
        raise BadInput(f"there is no audit entry {options['id']}; `queue audit` lists them")
    undone = undo.undo(entry, by_command(options["reason"]))
    out.write(f"audit entry {entry.pk} {_result(undone)}")
    return 0


def _result(undone: AuditEntry) -> str:
    if undone.action_id:
        return (
            f"is being undone in the background by {undone.target} (audit entry {undone.pk}); "
            f"`queue bulk show {undone.action_id} --watch` shows progress"
        )
    return f"undone (audit entry {undone.pk}): {undone.target}: {in_words(undone.after)}"
