"""Papers that have come as far as their analysis, and one played worker that does that step."""

from __future__ import annotations

from typing import Any

from django.core.files.base import ContentFile
from django.db import transaction

from pipeline import tasks
from pipeline.models import FLOW, Document
from pipeline.tasks.analyse import expected_parts
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.flow import NORMAL, NewExecution, get_flow
from queuemgr.flows.outcomes import Done, Result
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Attempt, DailyUsage, Execution, Lease
from queuemgr.scheduling import routes, wakeups
from queuemgr.worker.leased_task import Work, as_result

SECRET = "Zanzibar"
SECTION = "We counted every gate on canal {n} near " + SECRET + " twice and found a leak in it.\n"
SHORT = "On leaks\n" + SECTION.format(n=1) * 5


def long_paper(sections: int = 8) -> str:
    """A section is about 1,140 tokens."""
    return "On leaks\n" + "".join(
        f"{n} Canal number {n}\n" + SECTION.format(n=n) * 60 for n in range(1, sections + 1)
    )


class Desk:
    def __init__(self, worker: Any) -> None:
        self.worker = worker

    def lay(self, key: str, text: str, *, looked_at: bool = True) -> Execution:
        """Have this paper wait for its analysis; `looked_at` as the step before it leaves it."""
        document = Document.objects.create(key=key, kind="file", source=key)
        document.text.save(f"text/{key}.txt", ContentFile(text.encode()))
        context = expected_parts(text) if looked_at else {}
        place = get_flow(FLOW).at("expensive", "analyse")
        kind = routes.kind_of(place, NORMAL, context, resumed=True)
        with transaction.atomic():  # nobody begins it before it has come so far
            enqueue_many(FLOW, [NewExecution(key, {})])
            Execution.objects.filter(key=key).update(
                phase="expensive", step="analyse", context=context, route_id=routes.route_id(kind)
            )
            wakeups.post(limits=[wakeups.EVERYTHING])
        return Execution.objects.get(key=key)

    def begin(self) -> list[Grant]:
        """Every analysis that may start now; what follows one is left waiting."""
        dispatch()
        return [grant for grant in self.worker.begin_all() if grant.step == "analyse"]

    def run(self, grant: Grant, signal: AbortSignal | None = None) -> Result:
        """Do the step, and make of an exception what a worker makes of it."""
        signal = signal or AbortSignal()
        try:
            return tasks.analyse_step.run(Work(grant, signal)) or Done()
        except Exception as error:
            return as_result(error, signal)

    def end(self, grant: Grant, result: Result) -> None:
        self.worker.end(grant, result, next_too=False)

    def once(self) -> list[Result]:
        """Run whatever may start now, one after another."""
        results = []
        for grant in self.begin():
            results.append(self.run(grant))
            self.end(grant, results[-1])
        return results


def charged() -> int:
    return sum(DailyUsage.objects.filter(limit="fleet").values_list("spent", flat=True))


def reserved() -> int:
    return sum(Lease.objects.values_list("cost", flat=True))


def outcomes() -> list[tuple[str, int]]:
    """How each attempt ended, and what it was charged."""
    return list(Attempt.objects.order_by("pk").values_list("outcome", "cost"))
