from __future__ import annotations

from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.cli.config_options import positive
from queuemgr.cli.output import by_command
from queuemgr.models import AuditEntry
from queuemgr.operations import undo
from queuemgr.operations.audit_log import in_words

NAME = "undo"
HELP = "put back what a change found: of limits, pauses, queues, retry policies and priorities"
EXAMPLES = """
  queue changes --actor ann --since "2026-11-28 06:00"
  queue undo 1042 --reason "it was meant for another host"
  exit codes: 0 put back, 3 not (what has changed since, and by whom)
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "id", type=positive, help="the change's number, as `queue changes` shows it"
    )
    parser.add_argument("--reason", default="", help="why, for the record")


def run(options: dict[str, Any], out: Any) -> int:
    change = AuditEntry.objects.filter(pk=options["id"]).first()
    if change is None:
        raise BadInput(f"there is no change {options['id']}; `queue changes` lists them")
    undone = undo.undo(change, by_command(options["reason"]))
    out.write(f"change {change.pk} {_said(undone)}")
    return 0


def _said(undone: AuditEntry) -> str:
    if undone.action_id:
        return (
            f"is being undone in the background, by {undone.target} (change {undone.pk}); "
            f"`queue bulk show {undone.action_id} --watch` follows it"
        )
    return f"undone (change {undone.pk}): {undone.target}: {in_words(undone.after)}"
