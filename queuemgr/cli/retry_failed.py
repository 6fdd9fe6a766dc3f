from __future__ import annotations

from typing import Any

from queuemgr import steering
from queuemgr.cli.output import by_command
from queuemgr.models import Execution

NAME = "retry-failed"
HELP = "let failed executions go on from the step they failed at"
EXAMPLES = """
  queue retry-failed --dry-run
  queue retry-failed --kind network --reason "proxy mended"
"""


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
    retried = steering.retry(failed.iterator(chunk_size=1000), by_command(options["reason"]))
    out.write(f"{retried} retried")
    return 0
