"""What the steps that follow are expected to use, by the rules of their flow, as far as what is known of an
execution decides. A rule that needs what an earlier step finds out cannot be asked: of such a step what it
used lately counts, under the limits that all work of its phase passes.

Of remaining work a few executions of each of the routes with the most are asked, and stand for all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from queuemgr.base import meters, process_state, sql
from queuemgr.base.errors import SluiceError
from queuemgr.base.timed_cache import TimedCache
from queuemgr.flows.flow import StepRef, all_flows, get_flow
from queuemgr.models import Execution, Lease
from queuemgr.reporting import explain
from queuemgr.scheduling import estimates, routes
from queuemgr.scheduling.claims import BATCH
from queuemgr.scheduling.step_rules import step_after

ROUTES, EXECUTIONS = 50, 4
"""How many routes are asked, and how many executions of each."""

RUNNING = 100
"""How many of those that run."""


class StepUse(NamedTuple):
    """A step that executions will pass with the same limits and amounts. `guessed`: as it used lately."""

    step: str
    phase: str
    limit_keys: str
    cost: int
    uses: str
    guessed: bool = False


class LaterUse(NamedTuple):
    """A step that about so many executions of this priority will pass after the one they wait for."""

    use: StepUse
    priority: int
    executions: float


def uses_after(
    flow: str, phase: str, step: str, priority: int, inputs: Mapping[str, Any]
) -> Iterator[StepUse]:
    """What the steps after this one use."""
    for ref in _needed_after(flow, phase, step, inputs):
        try:
            kind = routes.kind_of(ref, priority, inputs, resumed=False)
        except SluiceError:
            usual = estimates.usual_amounts(ref)
            uses = meters.as_text({meter: meters.on_grid(amount) for meter, amount in usual.items()})
            yield StepUse(ref.step.name, ref.phase.name, "", 0, uses, guessed=True)
        else:
            yield StepUse(ref.step.name, ref.phase.name, kind.limit_keys, kind.cost, kind.uses)


def _needed_after(flow: str, phase: str, step: str, inputs: Mapping[str, Any]) -> Iterator[StepRef]:
    """The steps that are needed as far as the inputs say; where they do not, all that follow."""
    known = get_flow(flow)
    following = known.steps_after(known.at(phase, step))
    try:
        while ref := step_after(flow, phase, step, inputs):
            yield ref
            phase, step = ref.phase.name, ref.step.name
    except SluiceError:
        places = [(ref.phase.name, ref.step.name) for ref in following]
        yield from following[places.index((phase, step)) + 1 if (phase, step) in places else 0 :]


_later: TimedCache[list[LaterUse]] = TimedCache()
process_state.register(_later.forget)


def of_remaining_work(now: datetime) -> list[LaterUse]:
    """What follows the steps that executions wait for or run now; no statement where no flow has several."""
    if all(sum(1 for _ in flow.steps()) < 2 for flow in all_flows()):
        return []
    return _later.get_or_compute(now, lambda: list(_later_uses()))


def _later_uses() -> Iterator[LaterUse]:
    found: defaultdict[tuple[StepUse, int], float] = defaultdict(float)
    for execution, stands_for in _asked():
        try:
            place = execution.flow, execution.phase, execution.step
            for use in uses_after(*place, execution.priority, execution.inputs):
                found[_in_its_batch(use, execution), execution.priority] += stands_for
        except SluiceError:
            continue  # a flow or a step that this process does not know
    for (use, priority), executions in found.items():
        yield LaterUse(use, priority, executions)


def _in_its_batch(use: StepUse, execution: Execution) -> StepUse:
    """Members of a batch with allowances pass its limit with every step."""
    here = execution.route.limit_keys.split() if execution.route else []
    batch = [key for key in here if key.startswith(BATCH)]
    return use._replace(limit_keys=" ".join([*use.limit_keys.split(), *batch])) if batch else use


def _asked() -> Iterator[tuple[Execution, float]]:
    """Executions, with how many each stands for."""
    waiting = explain.waiting_by_route()
    most = sorted(waiting, key=lambda route: (-waiting[route], route))[:ROUTES]
    asked = Counter[int]()
    rows = list(_some_of(most))
    for row in rows:
        asked[row.route_id or 0] += 1
    covered = sum(waiting[route] for route in asked)
    scale = sum(waiting.values()) / covered if covered else 0.0
    for row in rows:
        route = row.route_id or 0
        yield row, scale * waiting[route] / asked[route]
    yield from _running()


_SOME = """
    SELECT * FROM (SELECT e.id FROM queuemgr_execution e
                    WHERE e.route_id = %s AND e.state = 'waiting' LIMIT %s) AS r{number}
"""


def _some_of(found: Iterable[int]) -> Iterator[Execution]:
    """A few that wait on each of these routes, in two statements."""
    asked = [(route, EXECUTIONS) for route in found]
    if asked:
        statement = " UNION ALL ".join(_SOME.format(number=number) for number in range(len(asked)))
        ids = sql.column(statement, [value for pair in asked for value in pair])
        yield from _known(ids)


def _running() -> Iterator[tuple[Execution, float]]:
    held = Lease.objects.count()
    if held:
        ids = list(Lease.objects.order_by("-leased_at").values_list("execution_id", flat=True)[:RUNNING])
        for row in _known(ids):
            yield row, held / len(ids)


def _known(ids: list[int]) -> Iterable[Execution]:
    names = ("flow", "phase", "step", "priority", "payload", "context", "route__limit_keys")
    return Execution.objects.filter(pk__in=ids).select_related("route").only(*names)
