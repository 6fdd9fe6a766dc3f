"""What is done to the fleet, and when: drawn from a seed, so that the same seed gives the same plan.

A plan says what is tried at which second. What the fault hits then depends on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Any

from proof.kinds import KINDS, Kind
from proof.metered import METERED
from proof.records import Rate


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault that begins at a second of the run and is undone after `lasts` seconds."""

    at: float
    kind: str
    target: str
    lasts: float
    seed: int


@dataclass(frozen=True, slots=True)
class PlannedEdit:
    """Values of a limit to be set at a second of the run."""

    at: float
    limit: str
    values: Mapping[str, Any]


FIRST_FAULT, LAST_FAULT = 10.0, 15.0
"""Quiet seconds at the start and before the end, in which the order of starts can be judged strictly."""

BETWEEN = (2.0, 7.0)
"""Seconds from one fault to the next, which may begin while the first lasts."""

AFTER = 2.0
"""Seconds after a fault in which its target is left alone."""

BUDGET = 60
"""The daily budget at the start: small, so that it stops work until it is raised."""

BUDGET_SHARE = 0.3
"""Share of the edits that change the budget."""

ALLOWANCE_SHARE = 0.5
"""Share of the others that change allowances."""

RATED = "host:rated.example:443"

CAPS: Mapping[str, Mapping[str, Any]] = {
    "fleet": {"max_running": 12, "reserved_high": 2, "daily_budget": BUDGET},
    "phase:prep": {"max_running": 7},
    "phase:expensive": {"max_running": 5},
    "phase:wrap": {"max_running": 4},
    "host:*": {"max_running": 3},
    "tenant:*": {"max_running": 4},
    RATED: {"rate": "4/s burst 3", "max_running": 3},
}

LIMIT_VALUES: Mapping[str, Mapping[str, Any]] = {
    **CAPS,
    **{name: {**CAPS.get(name, {}), "allowances": of.at_start()} for name, of in METERED.items()},
}
"""The limits a run begins with."""

BY_HAND = {
    **{name: LIMIT_VALUES[name] for name in ("tenant:*", RATED)},
    **{name: {"allowances": of.at_start()} for name, of in METERED.items() if name != "tenant:*"},
}
"""What no setting sets of them: set before work is enqueued."""

CAPPED = ("prep.high", "expensive.high", "wrap.high")
MOST_WAITING = 100_000
"""Queues with a cap that is never reached: who enqueues into one takes its lock, and nothing is refused."""

CALM_SECONDS = 15
"""Seconds that the work under each rate of the calm stretch takes, if all of the rate is used."""

CALM_WAVES = (
    (Rate("calm:slow", starts=1, period=3),),
    (Rate("calm:fast", starts=5, period=1),),
    tuple(Rate(f"calm:each-{number}", starts=1, period=1) for number in range(20)),
)
"""The rates of the calm stretch, those of one wave at a time: the end of each step makes the fleet look at
all rates, so that work under others would hide that it does not look by itself."""

CALM_LIMITS: Mapping[str, Mapping[str, Any]] = {
    "calm:slow": {"rate": "1/3s"},
    "calm:fast": {"rate": "5/s"},
    "calm:each-*": {"rate": "1/s"},
    "fleet": {"max_running": 40, "reserved_high": 0},
    "phase:prep": {"max_running": 40},
}
"""The same rates as limits, and caps above the slots of the fleet, so that nothing else stops a start."""

RATES = (Rate(RATED, starts=4, period=1, burst=3), *chain.from_iterable(CALM_WAVES))
"""All rates, as the checker knows them."""

ALL_OPEN: Mapping[str, Mapping[str, Any]] = {
    **{name: {**CAPS.get(name, {}), "allowances": of.wide()} for name, of in METERED.items()},
    **{name: values for name, values in CAPS.items() if name not in METERED},
    "fleet": {**CAPS["fleet"], "daily_budget": 10**6, "allowances": METERED["fleet"].wide()},
}
"""The values under which the remaining work runs after the faults."""


def faults(seed: int, seconds: float, kinds: Sequence[Kind]) -> list[PlannedFault]:
    """Faults of every kind in random order, drawn anew each time all have been; two may overlap, but not on
    the same target, and nothing overlaps one that is to be alone."""
    rng, free_at = Random(f"faults {seed}"), dict.fromkeys(_targets(), 0.0)
    planned, at = [], FIRST_FAULT
    for kind in _drawn(rng, kinds):
        target = rng.choice(list(kind.targets))
        at = max(at, max(free_at.values()) if kind.alone else free_at[target])
        if at >= seconds - LAST_FAULT:
            break
        lasts = rng.uniform(*kind.lasts)
        planned.append(PlannedFault(at, kind.name, target, lasts, rng.randrange(2**32)))
        free_at[target] = at + lasts + AFTER
        at += rng.uniform(*BETWEEN) + (lasts + kind.bound if kind.alone else 0)
    return planned


def edits(seed: int, seconds: float) -> list[PlannedEdit]:
    """Caps and allowances raised and lowered; the budget raised more often than lowered, but more slowly than
    work would spend it."""
    rng, budget = Random(f"edits {seed}"), BUDGET
    planned, at = [], 3.0
    while at < seconds:
        limit, values = rng.choice(_caps(rng))
        if rng.random() < BUDGET_SHARE:
            budget = max(10, budget + rng.choice((-15, 10, 25, 40)))
            limit, values = "fleet", {"daily_budget": budget}
        elif rng.random() < ALLOWANCE_SHARE:
            limit = rng.choice(list(METERED))
            values = {"allowances": METERED[limit].edited(rng, at)}
        planned.append(PlannedEdit(at, limit, values))
        at += rng.uniform(1.5, 6.0)
    return planned


def _caps(rng: Random) -> list[tuple[str, dict[str, Any]]]:
    most = rng.randint(5, 16)
    return [
        ("fleet", {"max_running": most, "reserved_high": rng.randint(0, 3)}),
        ("phase:prep", {"max_running": rng.randint(2, 9)}),
        ("phase:expensive", {"max_running": rng.randint(1, 6)}),
        ("phase:wrap", {"max_running": rng.randint(1, 6)}),
        ("host:*", {"max_running": rng.randint(1, 4)}),
    ]


def _targets() -> list[str]:
    return [target for kind in KINDS for target in kind.targets]


def _drawn(rng: Random, kinds: Sequence[Kind]) -> Iterator[Kind]:
    while kinds:
        yield from rng.sample(kinds, len(kinds))
