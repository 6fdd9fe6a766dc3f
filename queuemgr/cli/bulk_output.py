"""What `queue bulk preview`, `show` and `list` print, and the progress bar of `--watch`."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import fields
from typing import Any

from queuemgr.base.safe_text import as_json
from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.limits import clock
from queuemgr.cli.output import show, table
from queuemgr.cli.progress_bar import bar, shown
from queuemgr.models import ActionState, BulkAction
from queuemgr.operations import bulk
from queuemgr.operations.bulk import Preview
from queuemgr.operations.bulk.progress import (
    filter_in_words,
    progress,
    result_in_words,
    serialize,
    what_in_words,
)

LISTED = 50


def preview(found: Preview, out: Any, *, as_json_line: bool) -> None:
    """What an action would change."""
    if as_json_line:
        out.write(as_json(_preview_as_dict(found)))
        return
    more = "more than " if found.more else ""
    out.write(f"{more}{found.matched:,} would change: each {found.verb.does}")
    if found.left_alone:
        left = ", ".join(f"{n:,} {state}" for state, n in found.left_alone.items())
        out.write(f"these match too and are left unchanged: {left}")
    if found.per_minute:
        out.write(f"at most {found.per_minute:,} a minute by default")
    rows = ([str(e), e.status, e.step, _error(e)] for e in found.sample)
    if found.sample:
        show(out, table("\nSample", ["execution", "status", "step", "error"], rows))


def _error(execution: Any) -> str:
    return f"{execution.error_kind}: {execution.error_message[:120]}" if execution.error_kind else ""


def _preview_as_dict(found: Preview) -> dict[str, Any]:
    values = {field.name: getattr(found, field.name) for field in fields(found)}
    sample = [{"id": e.pk, "flow": e.flow, "key": e.key, "status": e.status} for e in found.sample]
    return {**values, "verb": found.verb.name, "sample": sample}


def summary_line(action: BulkAction, now: Any) -> str:
    """`retry #7 running: 40% of 1,000; 400 changed, …`."""
    current = progress(action, now)
    eta = f"; ETA {clock(current.ends_at)}" if current.ends_at else ""
    who = f" by {action.stopped_by}" if action.stopped_by else ""
    return (
        f"{action} {action.state}{who}: {current.percent}% of {action.matched:,}; "
        f"{result_in_words(action)}{eta}"
    )


def details(values: dict[str, Any], out: Any) -> None:
    rows = [(name.replace("_", " "), v) for name, v in values.items() if v not in ("", None)]
    show(out, table("", ["", ""], rows))


def newest(out: Any, *, as_json_lines: bool) -> None:
    """The newest actions, newest first."""
    now = database_now()
    actions = list(BulkAction.objects.order_by("-pk")[:LISTED])
    if as_json_lines:
        for action in actions:
            out.write(as_json(serialize(action, now)))
        return
    rows = (
        [a.pk, what_in_words(a), filter_in_words(a), a.state, f"{progress(a, now).percent}%",
         result_in_words(a), a.actor, a.reason]
        for a in actions
    )  # fmt: skip
    columns = ["#", "action", "filter", "state", "", "result", "actor", "reason"]
    show(out, table("Bulk actions", columns, rows))


def watch(pk: int, interval: float) -> BulkAction:
    """Wait until it has ended, with a progress bar on a terminal; polls every `interval` seconds."""
    action = bulk.get_or_error(pk)
    with bar() if shown() else nullcontext() as drawn:
        task = drawn.add_task(str(action), total=action.matched) if drawn else None
        while action.state == ActionState.RUNNING:
            if drawn and task is not None:
                drawn.update(task, completed=action.matched - progress(action, database_now()).left)
            time.sleep(interval)
            action = bulk.get_or_error(pk)
    return action
