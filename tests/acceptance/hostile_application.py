"""An application whose code does everything a queue would rather it did not, on command of its payloads.

A worker started with `-I tests.acceptance.hostile_application` serves its flow; run as a program, it
enqueues one execution for every case.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    import django

    django.setup()

from celery import shared_task
from django.db import connection

from queuemgr import (
    Context,
    Done,
    Flow,
    LeasedTask,
    NewExecution,
    Phase,
    Step,
    Work,
    enqueue_many,
    register_flow,
)
from queuemgr.scheduling import retry_policies
from tests.acceptance import hostile_stores
from tests.acceptance.hostile_code import BAD_RULES, KILLS, RAISES, RETURNS, act, cases, damages
from tests.acceptance.hostile_process import DAMAGES
from tests.acceptance.hostile_stores import FORKS, LOSES_ITS_WRITES

FLOW = "hostile"


@shared_task(base=LeasedTask, name="hostile.first")
def first(work: Work) -> Any:
    where, what = work.inputs["where"], work.inputs["what"]
    if where == "step" and (what not in {**KILLS, **DAMAGES} or _first_time(work)):
        act(what)
    if where == "returns":
        return RETURNS[what]()
    return Done({"went": "well", "nested": [1]}, store=lambda: _store(where, what))


def _store(where: str, what: str) -> object:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    if where not in ("store", "after-commit"):
        return None
    ours = where == "after-commit" or what in {**LOSES_ITS_WRITES, **FORKS}
    return hostile_stores.store(where, what) if ours else act(what)


def _first_time(work: Work) -> bool:
    try:
        Path(work.inputs["once"], work.key).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@shared_task(base=LeasedTask, name="hostile.second")
def second(work: Work) -> None:
    """Nothing: that it is reached is what counts."""


def _rule(name: str, otherwise: Any) -> Callable[[Context], Any]:
    def rule(context: Context) -> Any:
        if context["where"] != f"rule-{name}":
            return otherwise
        what = context["what"]
        if what in BAD_RULES[name]:
            return BAD_RULES[name][what]()
        return act(what) if what in RAISES else hostile_stores.rule(what, context, otherwise)

    return rule


register_flow(
    Flow(
        FLOW,
        (
            Phase("prep", 0, "waiting", "running", (
                Step("first", "hostile.first"),
                Step(
                    "second", "hostile.second", key=_rule("key", ""), cost=_rule("cost", 0),
                    needed=_rule("needed", True), weight=_rule("weight", 1), resources=_rule("resources", {}),
                ),
            )),
        ),
    )
)  # fmt: skip


def main(once: str, *chosen: str) -> None:
    """Enqueue every case of a pool, or the cases with these keys."""
    every = cases(kills=True)
    some = [case for case in [*every, *damages()] if case.key in chosen] or cases(kills="prefork" in chosen)
    waits_an_hour = retry_policies.new_row("unexpected", "prep")  # what is read is the first attempt's
    waits_an_hour.base = waits_an_hour.ceiling = 3600
    waits_an_hour.save()
    some.sort(key=lambda case: case.what == "logging")  # last: after it, a process logs nothing
    enqueue_many(FLOW, [NewExecution(c.key, {"where": c.where, "what": c.what, "once": once}) for c in some])


if __name__ == "__main__":
    main(*sys.argv[1:])
