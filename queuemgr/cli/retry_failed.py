from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from queuemgr import steering
from queuemgr.cli.output import by_command
from queuemgr.cli.progress import tracked
from queuemgr.controls import By
from queuemgr.models import Execution

NAME = "retry-failed"
HELP = "let failed executions go on from the step they failed at"
EXAMPLES = """
  queue retry-failed --dry-run
  queue retry-failed --kind network --reason "proxy mended"
"""


CHUNK = 500


def add_arguments(parser: Any) -> None:
    parser.add_argument("--kind", help="only this error kind")
    parser.add_argument("--flow", help="only this flow")
    parser.add_argument("--dry-run", action="store_true", help="count and show, change nothing")
    parser.add_argument("--reason", default="", help="why, for the record")


def run(options: dict[str, Any], out: Any) -> int:
    wanted = {"error_kind": options["kind"], "flow": options["flow"]}
    failed = Execution.objects.failed().filter(**{k: v for k, v in wanted.items() if v})
    if options["dry_run"]:
        out.write(f"{failed.count()} would be retried")
        for execution in failed.order_by("pk")[:10]:
            out.write(f"  {execution}  {execution.error_kind}: {execution.error_message}")
        return 0
    out.write(f"{_retried(failed, by_command(options['reason']))} retried")
    return 0


def _retried(failed: QuerySet[Execution], by: By) -> int:
    """A chunk at a time, so that memory is flat and it can be told how far it is."""
    ids = list(failed.order_by("pk").values_list("pk", flat=True))
    chunks = [ids[n : n + CHUNK] for n in range(0, len(ids), CHUNK)]
    return sum(
        steering.retry(Execution.objects.filter(pk__in=some).only("pk"), by)
        for some in tracked(chunks, "retrying", lambda: len(ids), len)
    )
