"""Calendar allowances on nights on which clocks change, with a clock that is set back, too: what counts of
each is what was used in the same period, by a walk minute by minute that uses nothing of the product."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest

from queuemgr.base.allowance import parse_allowances
from queuemgr.scheduling import limit_usage
from queuemgr.scheduling.decision_input import LimitRule, Usage
from tests.model.calendar_walk import NIGHTS, ZONES, Daily
from tests.private_servers import MODEL_EXAMPLES

LIMIT = "api:a"
LONGEST = timedelta(days=8)
STEPS = (
    timedelta(seconds=20),
    timedelta(minutes=17),
    timedelta(hours=1),
    timedelta(hours=5),
    timedelta(days=1),
)


def periods(zone: str, anchor: str, start: datetime) -> dict[str, Callable[[datetime], object]]:
    """By the name of an allowance, what tells the period of a moment from others."""
    hour, minute = map(int, anchor[-5:].split(":")) if anchor else (0, 0)
    there = ZoneInfo(zone)
    days = Daily(zone, hour, minute).due(start)
    sundays = [at for at in days if f"{at.astimezone(there):%a}" == "Sun"]
    firsts = [at for at in days if at.astimezone(there).day == 1]
    return {
        "tokens/day": lambda at: bisect_right(days, at),
        "tokens/week": lambda at: bisect_right(sundays, at),
        "tokens/month": lambda at: bisect_right(firsts, at),
        "tokens/hour/calendar": lambda at: at.timestamp() // 3600,
        "tokens/minute/calendar": lambda at: at.timestamp() // 60,
        "tokens/total": lambda at: None,
    }


def stated(zone: str, anchor: str) -> str:
    at = anchor.removeprefix(" from ")
    return (
        f"900,000 tokens/day{anchor} in {zone}; 900,000 tokens/week from sun {at} in {zone}; "
        f"900,000 tokens/month from 1 {at} in {zone}; 900,000 tokens/hour calendar; "
        "900,000 tokens/minute calendar; 900,000 tokens in total"
    ).replace("  ", " ")


@pytest.mark.django_db
@pytest.mark.parametrize("seed", range(MODEL_EXAMPLES))
def test_what_counts_is_what_was_used_in_the_same_period_however_clocks_are_changed(seed: int) -> None:
    random = Random(seed)
    for night in random.sample(NIGHTS, 3):
        zone, anchor = random.choice(ZONES), random.choice(("", " from 02:30", " from 23:45"))
        rule, limit = LimitRule(allowances=parse_allowances(stated(zone, anchor))), f"{LIMIT}{night:%m%d}"
        same = periods(zone, anchor, night)
        history: list[tuple[datetime, int]] = []
        now = night
        for _ in range(25):
            now = min(max(night, now + random.choice((1, 1, 1, -1)) * random.choice(STEPS)), night + LONGEST)
            amount = random.randint(1, 99)
            history.append((now, amount))
            limit_usage.charge_periods(
                Counter(dict(limit_usage.charged(limit, rule, {"tokens": amount}, now)))
            )
            use: defaultdict[str, Usage] = defaultdict(Usage)
            limit_usage.add_allowances(use, {limit: rule}, [limit], now)
            for name, of in same.items():
                expected = sum(some for at, some in history if of(at) == of(now))
                found = use[limit].meters[name].spent
                assert found == expected, f"{name}{anchor} in {zone} at {now}: {history}"
