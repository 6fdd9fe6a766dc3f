from __future__ import annotations

from typing import Any

from queuemgr.base.config import queue_settings
from queuemgr.cli.arguments import add_reason, natural
from queuemgr.cli.output import by_command
from queuemgr.cli.progress_bar import tracked
from queuemgr.models import Execution, ExecutionQuerySet
from queuemgr.operations import bulk, executions
from queuemgr.operations.bulk import AT_ONCE, BulkRequest
from queuemgr.operations.controls import Actor
from queuemgr.reporting.filtering import executions_matching

NAME = "retry-failed"
HELP = "retry failed executions from the step they failed at"
EXAMPLES = f"""
  queue retry-failed --dry-run
  queue retry-failed --kind network --reason "proxy repaired"
  queue retry-failed --per-minute 60             in the background, 60 a minute
  more than {AT_ONCE:,} are retried in the background at SLUICE_BULK_RETRIES_PER_MINUTE unless
  --per-minute is given; --per-minute 0: all at once, in this process
"""

CHUNK = 500


def add_arguments(parser: Any) -> None:
    parser.add_argument("--kind", "--error-kind", help="only this error kind")
    parser.add_argument("--flow", help="only this flow")
    parser.add_argument("--dry-run", action="store_true", help="count and sample, change nothing")
    parser.add_argument(
        "--per-minute", type=natural, help="as a bulk action at this rate; 0: all at once, here"
    )
    add_reason(parser)


def run(options: dict[str, Any], out: Any) -> int:
    chosen = {"error_kind": options["kind"], "flow": options["flow"]}
    filters = {"state": "failed", **{name: value for name, value in chosen.items() if value}}
    failed = executions_matching(filters)
    if options["dry_run"]:
        out.write(f"{failed.count()} would be retried")
        for execution in failed.order_by("pk")[:10]:
            out.write(f"  {execution}  {execution.error_kind}: {execution.error_message}")
        return 0
    by, per_minute = by_command(options["reason"]), options["per_minute"]
    if failed.exists() and (per_minute or (per_minute is None and _is_many(failed))):
        action = bulk.begin(BulkRequest("retry", filters, per_minute=per_minute), by)
        out.write(
            f"{action.matched:,} are retried in the background, {action.per_minute:,} a minute: "
            f"`queue bulk show {action.pk} --watch` shows progress, `queue bulk stop {action.pk}` stops it"
        )
        return 0
    out.write(f"{_retry_in_chunks(failed, by)} retried")
    return 0


def _is_many(failed: ExecutionQuerySet) -> bool:
    """Are there so many that they are retried at the rate of the settings, if they have one?"""
    some = failed.order_by().values_list("pk", flat=True)[: AT_ONCE + 1]
    return len(some) > AT_ONCE and queue_settings().bulk_retries_per_minute > 0


def _retry_in_chunks(failed: ExecutionQuerySet, by: Actor) -> int:
    ids = list(failed.order_by("pk").values_list("pk", flat=True))
    chunks = [ids[n : n + CHUNK] for n in range(0, len(ids), CHUNK)]
    return sum(
        executions.retry(Execution.objects.filter(pk__in=some).only("pk"), by)
        for some in tracked(chunks, "retrying", lambda: len(ids), len)
    )
