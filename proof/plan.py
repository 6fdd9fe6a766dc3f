"""What is done to the fleet, and when: drawn from a seed, so that the same seed gives the same plan.

A plan says what is tried at which second. What the fault hits then depends on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from proof.records import Rate

WORKERS = ("alpha", "beta", "fork", "clock")
"""The worker groups faults choose from."""

LEASE_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: its possible targets, and its shortest and longest duration in seconds."""

    name: str
    targets: Sequence[str]
    lasts: tuple[float, float] = (0.0, 0.0)
    only_on: str = ""


KINDS: tuple[Kind, ...] = (
    Kind("kill workers", WORKERS, (0.0, LEASE_SECONDS + 2)),
    Kind("freeze workers", WORKERS, (LEASE_SECONDS + 2, LEASE_SECONDS + 8)),
    Kind("flush broker", ("broker",)),
    Kind("restart broker", ("broker",), (0.5, 6.0)),
    Kind("stall broker", ("broker",), (4.0, 15.0)),
    Kind("restart database", ("database",), (0.5, 4.0), only_on="postgres"),
    Kind("deliver again and late", ("messages",)),
    Kind("two beats", ("beat",), (5.0, 15.0)),
    Kind("no beat", ("beat",), (5.0, 20.0)),
    Kind("full disk", WORKERS[:3], (5.0, 12.0), only_on="postgres"),
    Kind("wrong clock", ("clock",), (10.0, 30.0), only_on="postgres"),
)


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

BUDGET = 60
"""The daily budget at the start: small, so that it stops work until it is raised."""

BUDGET_SHARE = 0.3
"""Share of the edits that change the budget."""

RATED = "host:rated.example:443"

LIMIT_VALUES: Mapping[str, Mapping[str, Any]] = {
    "fleet": {"max_running": 12, "reserved_high": 2, "daily_budget": BUDGET},
    "phase:prep": {"max_running": 7},
    "phase:expensive": {"max_running": 5},
    "phase:wrap": {"max_running": 4},
    "host:*": {"max_running": 3},
    "tenant:*": {"max_running": 4},
    RATED: {"rate": "4/s burst 3", "max_running": 3},
}
"""The limits a run begins with."""

BY_HAND = ("tenant:*", RATED)
"""Those of them that no setting sets: they are set before work is enqueued."""

RATES = (Rate(RATED, starts=4, period=1, burst=3),)
"""The same rate, as the checker knows it."""

ALL_OPEN: Mapping[str, Mapping[str, Any]] = {
    **LIMIT_VALUES,
    "fleet": {**LIMIT_VALUES["fleet"], "daily_budget": 10**6},
}
"""The values under which the remaining work runs after the faults."""


def faults(seed: int, seconds: float, database: str) -> list[PlannedFault]:
    """Faults of every kind in random order, drawn anew each time all have been; two may overlap, but not on
    the same target."""
    rng, free_at = Random(f"faults {seed}"), dict.fromkeys(_targets(), 0.0)
    planned, at = [], FIRST_FAULT
    for kind in _drawn(rng, database):
        target = rng.choice(list(kind.targets))
        at = max(at, free_at[target])
        if at >= seconds - LAST_FAULT:
            break
        lasts = rng.uniform(*kind.lasts)
        planned.append(PlannedFault(at, kind.name, target, lasts, rng.randrange(2**32)))
        free_at[target] = at + lasts + 2
        at += rng.uniform(2.0, 9.0)
    return planned


def edits(seed: int, seconds: float) -> list[PlannedEdit]:
    """Caps raised and lowered; the budget raised more often than lowered, but more slowly than work would
    spend it."""
    rng, budget = Random(f"edits {seed}"), BUDGET
    planned, at = [], 3.0
    while at < seconds:
        limit, values = rng.choice(_caps(rng))
        if rng.random() < BUDGET_SHARE:
            budget = max(10, budget + rng.choice((-15, 10, 25, 40)))
            limit, values = "fleet", {"daily_budget": budget}
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


def _drawn(rng: Random, database: str) -> Iterator[Kind]:
    fitting = [kind for kind in KINDS if kind.only_on in ("", database)]
    while True:
        yield from rng.sample(fitting, len(fitting))
