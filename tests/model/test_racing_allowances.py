"""Processes that decide, start, report, end and lose work under the same allowances at once, and die at any
statement: none is exceeded, everything that ended is charged once, and none waits for another for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from queuemgr.base import transaction
from queuemgr.base.allowance import Allowance, parse_allowance
from queuemgr.base.meters import from_text
from queuemgr.flows.flow import NewExecution
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Result, Snoozed
from queuemgr.lifecycle import leases
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import AllowanceUsage, Attempt, Execution, Lease, Worker
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import allowance_clocks
from tests.model.racing_processes import Act, Racer, race, run_to_the_end

ANN = Actor("ann", "test", "because")
ESTIMATE = 20
RESULTS: tuple[Result, ...] = (
    Done(),
    Done(),
    Failed("not_found", "404"),
    Interrupted("stop"),
    Snoozed(0, "no"),
)
LIMITS = {
    "fleet": "320 tokens in total; 60,000 tokens/minute burst 700; 1,000 tokens/week rolling burst 100,000",
    "host:a": "120 tokens/day; 125 tokens/month in Europe/Berlin; 30,000 tokens/minute burst 300",
    "tenant:*": "180 tokens/week; 36,000 tokens/hour burst 400",
}
KEYS = ("host:a tenant:x", "tenant:y host:a", "tenant:x", "host:b tenant:y")


class Spender(Racer):
    """A process that works, and reports what its steps use: never more than was reserved."""

    def draw(self) -> Act:
        act = self.random.choice(("begin", "begin", "report", "end", "end", "end", "dispatch", "lose"))
        acts: dict[str, Act] = {
            "begin": self.begin, "report": self.report, "end": partial(self.end, RESULTS),
            "dispatch": dispatch, "lose": self.lose,
        }  # fmt: skip
        return acts[act]

    def report(self) -> None:
        for grant in self.random.sample(self.running, min(len(self.running), 4)):
            leases.record_usage(grant.lease_id, f"tokens={self.random.randint(1, ESTIMATE)}")


@pytest.mark.parametrize("seed", range(2))
def test_no_allowance_is_exceeded_and_each_end_is_charged_once_in_any_race_of_processes_that_die(
    seed: int,
    transactional_db: None,
    make_worker: Callable[..., Worker],
    sent: list[Any],
    configure: Callable[..., None],
) -> None:
    configure(retry_percent=100, max_workers=150)
    for name, text in LIMITS.items():
        controls.edit_limit(name, ANN, new=True, allowances=text)
    spenders = [Spender(f"{seed} {n}", make_worker(slots=50, name=f"w{seed}-{n}@test")) for n in range(4)]
    for keys in KEYS:
        given = {"limit_key": keys, "uses": {"tokens": ESTIMATE}}
        enqueue_many("probe", [NewExecution(f"{keys} {n}", given) for n in range(40)])
    dispatch()
    race(spenders, 40, Spender.draw)  # type: ignore[arg-type]  # each of them is a spender
    assert sum(spender.ended for spender in spenders)
    check_charges()
    for name in LIMITS:
        controls.edit_limit(name, ANN, allowances="")
    run_to_the_end(spenders[0], [Done()])
    assert not Execution.objects.unfinished().exists()


def check_charges() -> None:
    """What was charged is what the attempts used, and no more than is allowed; begins conform."""
    used: Counter[str] = Counter()
    begun: dict[str, list[tuple[float, int]]] = {}
    attempts = list(Attempt.objects.order_by("started_at"))
    assert attempts
    for attempt in attempts:
        tokens = from_text(attempt.uses or "").get("tokens", 0)
        for name in ("fleet", *attempt.limit_keys.split()):
            used[name] += tokens
            begun.setdefault(name, []).append((attempt.started_at.timestamp(), tokens))
    for name, stated in _allowances().items():
        for allowance in stated:
            if allowance.rolling:
                check_bucket(allowance, begun.get(name, []))
                continue
            spent = AllowanceUsage.objects.filter(limit=name, allowance=allowance.name)
            assert sum(spent.values_list("spent", flat=True)) == used[name]
            assert used[name] <= allowance.amount, f"{name}: {used[name]} of {allowance}"
    check_refunds("fleet", _allowances()["fleet"][-1], begun["fleet"])


def _allowances() -> dict[str, list[Allowance]]:
    named = {"fleet": "fleet", "host:a": "host:a", "tenant:x": "tenant:*", "tenant:y": "tenant:*"}
    return {key: [parse_allowance(text) for text in LIMITS[row].split("; ")] for key, row in named.items()}


def check_bucket(allowance: Allowance, begun: list[tuple[float, int]]) -> None:
    level, last = float(allowance.burst), 0.0
    for at, tokens in begun:
        level = min(allowance.burst, level + (at - last) / allowance.interval) - tokens
        last = at
        assert level > -1, f"{allowance} was exceeded by {-level:g}"


def check_refunds(name: str, allowance: Allowance, begun: list[tuple[float, int]]) -> None:
    """Of an allowance that refills so slowly that it was full only before the first start: its clock says
    what was used, and is reserved by what runs, to a hundredth of a part. All else was given back once."""
    running = [
        (lease.started_at.timestamp(), ESTIMATE) for lease in Lease.objects.started() if lease.started_at
    ]
    clock = 0.0
    for at, tokens in sorted([*begun, *running]):
        clock = max(clock, at) + tokens * allowance.interval
    with transaction.atomic():
        found = allowance_clocks.lock([f"{name} {allowance.name}"]).clocks[f"{name} {allowance.name}"]
    assert abs(found.clock - clock) < allowance.interval / 100, (found.clock - clock) / allowance.interval
