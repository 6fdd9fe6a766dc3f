"""How bulk actions look in a terminal: previews, facts, a list, and a bar that follows one."""

from __future__ import annotations

import time
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
    facts_of,
    filter_in_words,
    progress,
    result_in_words,
    what_in_words,
)

LISTED = 50


def preview(seen: Preview, out: Any, *, as_line: bool) -> None:
    """What an action would meet."""
    if as_line:
        out.write(as_json(_preview_facts(seen)))
        return
    more = "more than " if seen.more else ""
    out.write(f"{more}{seen.matched:,} would change: each {seen.verb.does}")
    if seen.left_alone:
        left = ", ".join(f"{n:,} {state}" for state, n in seen.left_alone.items())
        out.write(f"the filter also meets these, which are left alone: {left}")
    if seen.per_minute:
        out.write(f"at most {seen.per_minute:,} a minute, if nothing else is said")
    rows = ([str(e), e.status, e.step, _error(e)] for e in seen.sample)
    if seen.sample:
        show(out, table("\nSome of them", ["execution", "status", "step", "error"], rows))


def _error(execution: Any) -> str:
    return (
        f"{execution.error_kind}: {execution.error_message[:120]}" if execution.error_kind else ""
    )


def _preview_facts(seen: Preview) -> dict[str, Any]:
    facts = {field.name: getattr(seen, field.name) for field in fields(seen)}
    sample = [{"id": e.pk, "flow": e.flow, "key": e.key, "status": e.status} for e in seen.sample]
    return {**facts, "verb": seen.verb.name, "sample": sample}


def in_a_line(action: BulkAction, now: Any) -> str:
    """`retry #7 running: 40% of 1,000; 400 changed, …`."""
    came = progress(action, now)
    ends = f"; ends about {clock(came.ends_at.isoformat())}" if came.ends_at else ""
    who = f" by {action.stopped_by}" if action.stopped_by else ""
    return (
        f"{action} {action.state}{who}: {came.percent}% of {action.matched:,}; "
        f"{result_in_words(action)}{ends}"
    )


def facts(known: dict[str, Any], out: Any) -> None:
    rows = [
        (name.replace("_", " "), value) for name, value in known.items() if value not in ("", None)
    ]
    show(out, table("", ["", ""], rows))


def newest(out: Any, *, as_lines: bool) -> None:
    """The newest actions, the last first."""
    now = database_now()
    actions = list(BulkAction.objects.order_by("-pk")[:LISTED])
    if as_lines:
        for action in actions:
            out.write(as_json(facts_of(action, now)))
        return
    rows = (
        [a.pk, what_in_words(a), filter_in_words(a), a.state, f"{progress(a, now).percent}%",
         result_in_words(a), a.actor, a.reason]
        for a in actions
    )  # fmt: skip
    columns = ["#", "does", "to executions with", "state", "", "result", "by", "why"]
    show(out, table("Bulk actions", columns, rows))


def watch(pk: int, every: float) -> BulkAction:
    """Wait until it has ended; with a bar where a person looks, and nothing that moves elsewhere."""
    action = bulk.found(pk)
    if not shown():
        while action.state == ActionState.RUNNING:
            time.sleep(every)
            action = bulk.found(pk)
        return action
    with bar() as drawn:
        task = drawn.add_task(str(action), total=action.matched)
        while action.state == ActionState.RUNNING:
            drawn.update(task, completed=action.matched - progress(action, database_now()).left)
            time.sleep(every)
            action = bulk.found(pk)
    return action
