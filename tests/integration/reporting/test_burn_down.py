"""What was left of an allowance at any moment is what it allows less what had been used by then."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from queuemgr.base import meters
from queuemgr.base.allowance import parse_allowance
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import AllowanceUsage, Attempt, Execution, Outcome
from queuemgr.reporting import burn_down
from queuemgr.reporting.allowance_forecast import Need, forecast
from queuemgr.reporting.allowances import AllowanceStatus

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 11, 28, 17, 30, tzinfo=UTC)
KEYS = ("", "openai:gpt", "openai:gpt-2 tenant:acme", "tenant:b openai:gpt")
PLACES = {
    "fleet": lambda phase, keys: True,
    "phase:wrap": lambda phase, keys: phase == "wrap",
    "openai:gpt": lambda phase, keys: "openai:gpt" in keys.split(),
}


def record(execution: Execution, ended: datetime, phase: str, keys: str, amounts: dict[str, int]) -> Attempt:
    cost = amounts.pop("requests", 0)
    return Attempt.objects.create(
        lease_id=uuid4(), execution=execution, phase=phase, step="probe", priority=1, cost=cost,
        uses=meters.as_text(amounts) or None, limit_keys=keys, leased_at=ended, started_at=ended,
        ended_at=ended, outcome=Outcome.DONE,
    )  # fmt: skip


def status_of(text: str, used: int, *needs: Need) -> AllowanceStatus:
    allowance = parse_allowance(text)
    ahead = forecast(allowance, used, needs, 0.01, "UTC", NOW)
    return AllowanceStatus(allowance, used, 0, allowance.period_at(NOW).ends, None, None, ahead)


def test_of_a_day_the_attempts_of_a_limit_are_counted_backwards_from_now(sent: list[Any]) -> None:
    enqueue("probe", "one", {})
    execution, chance = Execution.objects.get(), random.Random(7)
    attempts = [
        record(
            execution,
            NOW - timedelta(seconds=chance.randrange(2 * 86_400)),
            chance.choice(("prep", "wrap")),
            chance.choice(KEYS),
            {meter: chance.randrange(1, 9) for meter in chance.sample(("requests", "tokens", "usd"), 2)},
        )
        for _ in range(40)
    ]
    for limit, is_under in PLACES.items():
        for meter in ("tokens", "requests"):
            used = [
                (a.ended_at, meters.amounts_of(a.cost, a.uses or "").get(meter, 0))
                for a in attempts
                if is_under(a.phase, a.limit_keys) and a.ended_at.date() == NOW.date()
            ]
            status = status_of(f"900 {meter}/day", sum(amount for _, amount in used))
            (line,) = burn_down.of_limit(limit, [status], "UTC", NOW).values()
            assert line.past[-1] == line.ahead[0] == burn_down.Point(NOW, status.left)
            for point in line.past[:-1]:
                before = sum(amount for at, amount in used if at < point.at)
                assert point.left == 900 - before, f"{limit} {meter} at {point.at}"


def test_of_longer_periods_the_days_are_and_the_line_ends_where_nothing_is_left_or_it_begins_anew() -> None:
    monday = datetime(2026, 11, 23, tzinfo=UTC)
    for day, spent in enumerate((5, 10, 20, 40)):
        starts = monday + timedelta(days=day - 1)
        AllowanceUsage.objects.create(limit="fleet", allowance="tokens/day", starts_at=starts, spent=spent)
    unused, waiting = status_of("100 tokens/week", 70), status_of("200 tokens/month", 75, Need(1, 5, 900))
    lines = burn_down.of_limit("fleet", [unused, waiting], "UTC", NOW)
    past = lines["tokens/week"].past
    assert [((p.at - monday).days, p.left) for p in past] == [(0, 100), (1, 90), (2, 70), (5, 30)]
    assert lines["tokens/week"].ahead[-1] == burn_down.Point(monday + timedelta(days=7), 30)
    assert [point.left for point in lines["tokens/month"].past] == [200, 195, 185, 165, 125]
    end = lines["tokens/month"].ahead[-1]
    assert end.left == 0 and end.at < datetime(2026, 12, 1, tzinfo=UTC)


def test_what_refills_has_no_line() -> None:
    assert burn_down.of_limit("fleet", [status_of("9 tokens/minute", 4)], "UTC", NOW) == {}


def test_of_what_refills_each_window_has_what_the_attempts_used_that_ended_in_it(sent: list[Any]) -> None:
    enqueue("probe", "one", {})
    execution, chance = Execution.objects.get(), random.Random(11)
    ago = [chance.randrange(30 * 60) + 0.25 for _ in range(40)]
    for seconds in ago:
        record(execution, NOW - timedelta(seconds=seconds), "prep", "openai:gpt", {"tokens": 7})
    texts = (
        "700 tokens/minute", "9 tokens/5 minutes", "9 tokens/0.5 seconds", "9 tokens/day rolling",
        "9 tokens/3 months rolling", "9 starts/second", "9 tokens/hour calendar",
    )  # fmt: skip
    found = burn_down.lately("openai:gpt", [parse_allowance(text) for text in texts], NOW)
    shapes = {name: (len(w.used), w.length.total_seconds(), w.allowed) for name, w in found.items()}
    assert shapes == {
        "tokens/minute": (24, 60, 700), "tokens/5minutes": (24, 300, 9), "tokens/0.5seconds": (24, 1, 18),
        "tokens/day/rolling": (24, 86_400, 9),
    }  # fmt: skip
    for name in ("tokens/minute", "tokens/5minutes", "tokens/day/rolling"):
        for at, amount in found[name].used:
            since = (NOW - at).total_seconds()
            within = [each for each in ago if since - found[name].length.total_seconds() < each <= since]
            assert amount == 7 * len(within), f"{name} from {at}"
    assert not any(
        used.amount
        for used in burn_down.lately("other", [parse_allowance(texts[0])], NOW)["tokens/minute"].used
    )
