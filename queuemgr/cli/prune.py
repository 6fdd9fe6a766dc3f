"""`queue prune`: deleting ended executions whose time is over, now instead of bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from queuemgr.base.config import QueueSettings, queue_settings
from queuemgr.base.safe_text import as_json
from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli import config_options
from queuemgr.cli.arguments import JSON_OBJECT, REASON
from queuemgr.cli.output import by_command
from queuemgr.cli.progress_bar import tracked
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.models import State
from queuemgr.reporting import failure_retention
from queuemgr.worker import retention
from queuemgr.worker.retention import Pruned

KEPT = ("keep_done_days", "keep_skipped_days", "keep_cancelled_days", "keep_failed_days")
SECONDS = 1.0
"""Between updates of the progress."""


def _add_days(parser: Any) -> None:
    config_options.add(parser, QueueSettings, KEPT)


@subcommand(
    "prune",
    option("--dry-run", action="store_true", help="count by state, delete nothing"),
    _add_days,
    REASON,
    JSON_OBJECT,
)
def prune(options: Options, out: Any) -> None:
    """delete ended executions that were kept long enough, with their attempts

    queue prune --dry-run --json
    queue prune --keep-done-days 30 --keep-failed-days 90
    beat does the same in the background, by SLUICE_KEEP_DONE_DAYS and its kin; members of a batch go
    together, once it is closed and every one may go. Statistics, usage and the audit log stay
    """
    config_options.apply(options)
    days = {str(state): days for state, days in retention.days_by_state(queue_settings()).items()}
    counts = retention.prunable(database_now()) if options["dry_run"] else _prune(options["reason"])
    own = failure_retention.of_their_own()
    if options["json"]:
        facts = {"dry_run": options["dry_run"], "executions": counts, "keep_days": days}
        out.write(as_json(facts | {"keep_failed_days_of_flows": own}))
        return
    verb = "would be deleted" if options["dry_run"] else "deleted"
    for state, kept in days.items():
        rule = f"kept {kept:g} days" if kept else "kept for ever"
        if state == State.FAILED and own:
            rule += f"; {len(own):,} flows have days of their own: queue failed keep"
        out.write(f"{state}: {counts.get(state, 0)} {verb} ({rule})")


def _prune(reason: str) -> dict[str, int]:
    """Delete until nothing is left that may go; what was deleted before an error is recorded."""
    total = Pruned()
    try:
        progress = tracked(
            _slices(), "pruning", lambda: sum(retention.prunable(database_now()).values()), _size
        )
        for some in progress:
            total.by_state.update(some.by_state)
    finally:
        if deleted := total.by_state.total():
            counts = dict(total.by_state)
            by_command(reason).record("prune", "executions", counts, {}, affected=deleted)
    return dict(total.by_state)


def _slices() -> Iterator[Pruned]:
    while True:
        some = retention.run(SECONDS)
        yield some
        if not some.left:
            return


def _size(some: Pruned) -> float:
    return some.by_state.total()
