"""What may happen to the fleet of the model: its flow, its work, how steps end and what operators change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from queuemgr.flows import flow
from queuemgr.flows.flow import HIGH, LOW, NORMAL, Context, Flow, Step
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Result, Skipped, Snoozed
from queuemgr.operations.controls import Actor

DAY = 86_400
ANN = Actor("ann", "test", "because")
PHASES = flow.get_flow("probe").phases
ORDER = [phase.name for phase in PHASES]


def _needed(phase: str) -> Callable[[Context], bool]:
    """Work goes through the phases from the one it is given to the last it is given."""
    return lambda given: phase in ORDER[given.get("first", 0) : given.get("last", 0) + 1]


def _step(phase: str) -> Step:
    return Step(
        name="work",
        task="none",
        key=lambda given: str(given.get("keys", "")).split(),
        cost=lambda given: int(given.get("cost", 0)),
        weight=lambda given: int(given.get("weight", 1)),
        resources=lambda given: dict(given.get("resources", {})),
        uses=lambda given: dict(given.get("uses", {})),
        needed=_needed(phase),
    )


MODEL = Flow("model", tuple(replace(phase, steps=(_step(phase.name),)) for phase in PHASES))

KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"keys": "host:a"},
    {"keys": "host:b", "last": 1},
    {"keys": "host:a tenant:x", "cost": 3},
    {"keys": "host:b tenant:y", "first": 1, "last": 1, "cost": 5},
    {"keys": "tenant:x", "cost": 20, "last": 2},
    {"keys": "host:a", "weight": 3},
    {"keys": "host:c", "weight": 2, "resources": {"cpu": 2}, "first": 1, "last": 1},
    {"resources": {"cpu": 1}},
    {"keys": "host:c tenant:y", "first": 2, "last": 2},
    {"keys": "host:a tenant:x", "uses": {"tokens": 200}, "cost": 2},
    {"keys": "tenant:y", "uses": {"tokens": 50, "usd": 0.25}, "last": 1},
    {"keys": "host:b", "uses": {"usd": 0.5}},
)
PRIORITIES = st.sampled_from((HIGH, NORMAL, LOW))
Endings = list[tuple[int, Result, bool]]
Work = tuple[dict[str, Any], int, int, int | None]
WORK = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(1, 4),
        PRIORITIES,
        st.sampled_from((None, None, None, 40, 95, -3000)),
    ),
    max_size=3,
)
"""Kind, how many, priority, and in how many seconds it falls due."""
ANY = st.integers(0, 999)
"""Which of so many things there may be: taken modulo their number."""

RESULTS: tuple[Result, ...] = (
    Done(),
    Done(),
    Done(cost=1),
    Skipped("nothing to do"),
    Snoozed(20, "not yet"),
    Failed("network", "refused"),
    Failed("timeout", "slow", cost=0),
    Failed("server_error", "503", retry_after=45),
    Failed("rate_limited", "429", retry_after=60),
    Failed("rate_limited", "429", limit="tenant:x"),
    Failed("quota", "used up"),
    Failed("not_found", "404"),
    Interrupted("shutdown"),
    Interrupted("shutdown"),
)
PAUSABLE = ("prep.normal", "expensive.high", "host:a", "tenant:x", "cpu", "prep", "everything")
ENDINGS = st.lists(st.tuples(ANY, st.sampled_from(RESULTS), st.booleans()), max_size=5)
"""Which step ends, how, and whether its slot asks for the next."""

VERBS = ("edit", "edit", "pause", "resume", "cancel", "retry", "priority")
EDITS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("fleet", {"max_running": 4, "reserved_high": 1}),
    ("fleet", {"max_running": 9, "reserved_high": 0}),
    ("fleet", {"rate": "3/100s burst 4"}),
    ("fleet", {"rate": ""}),
    ("fleet", {"daily_budget": 110}),
    ("fleet", {"daily_budget": None}),
    ("phase:prep", {"max_running": 2}),
    ("phase:prep", {"max_running": 0}),
    ("phase:expensive", {"rate": "1/61s"}),
    ("phase:expensive", {"rate": ""}),
    ("host:*", {"max_running": 3}),
    ("host:a", {"max_running": 1}),
    ("host:a", {"max_running": 5, "reserved_high": 2}),
    ("host:a", {"rate": "7/240s burst 2"}),
    ("host:a", {"rate": ""}),
    ("host:b", {"rate": "1/31s"}),
    ("host:b", {"breaker_after": 1}),
    ("tenant:x", {"daily_budget": 25}),
    ("tenant:x", {"daily_budget": 120, "blocked_for_low_percent": 50}),
    ("tenant:x", {"share": 3}),
    ("tenant:*", {"max_running": 3}),
    ("fleet", {"allowances": "700 tokens/minute; 3 usd/day"}),
    ("fleet", {"allowances": "900 tokens/day; 2,000 tokens in total; 1 usd/minute burst 1.50"}),
    ("fleet", {"allowances": ""}),
    ("phase:prep", {"allowances": "600 tokens/hour burst 400"}),
    ("phase:prep", {"allowances": "600 tokens/hour calendar low 50%; 9 requests/day in Asia/Kathmandu"}),
    ("host:a", {"allowances": "400 tokens/minute; 12 requests/hour"}),
    ("tenant:*", {"allowances": "300 tokens/day high 20%; 0.75 usd/week from tue 03:00"}),
    ("tenant:*", {"allowances": "300 tokens/day in America/New_York"}),
    ("tenant:x", {"allowances": "1,000 tokens/month from 31; 250 tokens/hour"}),
    ("host:b", {"allowances": "260 tokens/second calendar; 500 tokens/second; 4 usd/day rolling burst 2"}),
    ("host:b", {"allowances": "2 usd/week from sun 02:30 in America/New_York; 3 usd in total high 10%"}),
    ("phase:expensive", {"allowances": "2 usd/month from 15 06:00 in Europe/Berlin; 400 tokens/week"}),
    ("cpu", {"max_running": 2}),
    ("cpu", {"max_running": 0}),
)
GROUPS = (
    tuple(f"{phase}.{name}" for phase in ORDER for name in ("high", "normal", "low")),
    tuple(f"prep.{name}" for name in ("high", "normal", "low")),
    ("expensive.high", "expensive.normal", "wrap.normal", "prep.low"),
)
