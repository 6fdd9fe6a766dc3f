"""The largest amounts there are, as often as one likes: work starts and ends, and everything can be shown."""

from __future__ import annotations

import json
from datetime import timedelta
from uuid import uuid4

import pytest

from queuemgr import Work
from queuemgr.base.meters import MAX_AMOUNT
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.lifecycle import minute_stats
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import AllowanceUsage, Attempt, Execution, MinuteStats
from queuemgr.operations import controls
from queuemgr.reporting import stats
from queuemgr.reporting.costs import DIMENSIONS, costs
from queuemgr.web.metrics import counters
from tests.integration.scheduling.limited_work import ANN, MODEL, Played, Probes, allow, leased

pytestmark = [
    pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("rows_of_limits"),
]  # fmt: skip

MORE_THAN_A_BIGINT_HOLDS = 2**63 // MAX_AMOUNT + 2


def test_the_largest_amount_used_a_thousand_times_is_added_up_and_shown(
    played: Played, probes: Probes
) -> None:
    allow("9,007,199,254,740,991 tokens/day; 1 usd/month rolling")
    (execution,) = probes(1, limit_key=MODEL, uses={"tokens": MAX_AMOUNT // 2, "usd": 1})
    ended = minute_stats.whole_minute(database_now()) - timedelta(seconds=150)
    Attempt.objects.bulk_create(
        Attempt(
            lease_id=uuid4(), execution=execution, phase="prep", step="probe", priority=1, outcome="done",
            cost=1, uses=f"tokens={MAX_AMOUNT} usd={MAX_AMOUNT}", limit_keys=MODEL, leased_at=ended,
            started_at=ended, ended_at=ended + timedelta(seconds=number % 2 * 60),
        )
        for number in range(MORE_THAN_A_BIGINT_HOLDS)
    )  # fmt: skip
    most = MORE_THAN_A_BIGINT_HOLDS * MAX_AMOUNT
    for by in DIMENSIONS:
        assert costs(by, database_now()).total.amounts["tokens"] == pytest.approx(most)
    for _ in range(2):  # as attempts, and as minutes
        used = {each.labels: each.value for each in counters.samples(database_now()) if "usage" in each.name}
        assert used["prep", "tokens"] == pytest.approx(most)
        minute_stats.roll_up(database_now())
    total = MinuteStats.objects.all_time().attempts_only().get().used
    assert total == {"tokens": most, "usd": most}
    assert stats.limit(MODEL)


def test_a_step_that_says_again_and_again_that_it_used_the_most_is_charged_it_once(
    played: Played, probes: Probes
) -> None:
    allow("1000 tokens/day")
    worker = played(slots=1)
    probes(1, limit_key=MODEL, uses={"tokens": 9})
    (grant,) = worker.begin_all()
    work = Work(grant, AbortSignal())
    for _ in range(3):
        work.spend(tokens=MAX_AMOUNT, usd=0.5)
    worker.end(grant, next_too=False)
    assert Attempt.objects.get().uses == f"tokens={MAX_AMOUNT} usd=1500000"
    assert AllowanceUsage.objects.get(limit=MODEL, allowance="tokens/day").spent == MAX_AMOUNT


@pytest.mark.parametrize(
    "edited", ["1 tokens/month rolling", "1 tokens/second", "1 tokens/day", "1 tokens total"]
)
def test_an_allowance_lowered_far_below_what_is_reserved_stops_no_other_work(
    edited: str, played: Played, probes: Probes
) -> None:
    allow(f"{MAX_AMOUNT} tokens/minute")
    worker = played(slots=4)
    probes(2, limit_key=MODEL, uses={"tokens": MAX_AMOUNT // 3})
    dispatch()
    assert leased() == 2, "not begun"
    controls.edit_limit(MODEL, ANN, allowances=edited)
    probes(1, limit_key=MODEL, uses={"tokens": 1}, prefix="small")
    probes(1, prefix="other")
    dispatch()
    assert leased() == 3, "that without a limit"
    assert stats.limit(MODEL) and stats.limits()
    for grant in worker.begin_all():
        worker.end(grant, next_too=False)
    dispatch()
    assert json.dumps(stats.limit(MODEL), default=str)
    assert Execution.objects.filter(state="done").count() == 3
