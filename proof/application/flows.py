"""The hostile flow, whose steps and rules do what the payload's `way` says, and a patient one beside it.

The first step misbehaves by itself, in its result or in its store. The rules of the second misbehave after
the first is done.
"""

from __future__ import annotations

import time

from proof.application import rules, switches
from queuemgr import Flow, Phase, Step

TIME_LIMIT_SECONDS = 3.0
ACT = Step("act", task="hostile.act", time_limit=TIME_LIMIT_SECONDS)
"""Under no key: the breaker of a key opens when its service times out."""


def _backfill(limit: int) -> int:
    if switches.is_on(switches.CALLBACKS_RAISE):
        raise RuntimeError("the callback of a hostile flow")
    return 0


def _tidy() -> int:
    return _backfill(0)


def _patient_backfill(limit: int) -> int:
    with (switches.folder() / switches.CALLBACK_LOG).open("a") as log:
        log.write(f"{time.monotonic_ns()}\n")
    return 0


HOSTILE = Flow(
    name="hostile",
    phases=(
        Phase("prep", rank=2, waiting="pending", running="acting", steps=(ACT,)),
        Phase(
            "wrap", rank=1, waiting="acted", running="following",
            steps=(
                Step(
                    "follow", task="hostile.follow", key=rules.key, cost=rules.cost, weight=rules.weight,
                    resources=rules.resources, needed=rules.needed,
                ),
            ),
        ),
    ),
    backfill=_backfill,
    cleanup=_tidy,
)  # fmt: skip

PATIENT = Flow(
    name="patient",
    phases=(
        Phase(
            "prep", rank=2, waiting="pending", running="acting",
            steps=(Step("act", task="patient.act"),),
        ),
    ),
    backfill=_patient_backfill,
)  # fmt: skip
