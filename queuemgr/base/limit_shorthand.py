"""What a limit is said to allow in fewer words, as the allowances that this stands for, and what is said
twice. Pure.

A daily budget is an allowance of requests a day: of 1,000 of them, as `1,000 requests/day`. A rate is one of
starts, of which each lease takes one as it begins, whatever it uses.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from queuemgr.base.allowance import MOST_OF_A_LIMIT, Allowance, allowances_in
from queuemgr.base.meters import REQUESTS, STARTS
from queuemgr.base.rate import Rate, parse_rate

DAILY_BUDGET = "requests/day"
"""The name of the allowance that a daily budget is."""

RATE = "starts"
"""The name of the allowance that a rate is, whatever its period: an edit of the rate keeps its clock."""

SMALL_BUDGET = 100
"""Requests. Of a smaller budget nothing is reserved: people expect to be able to spend all of it."""


def daily_budget(requests: int, zone: str = "", *, high: int = 0, low: int = 0) -> Allowance:
    """So many requests a day, of which the last percents are for high priority, and not for low."""
    if requests < SMALL_BUDGET:
        high = low = 0
    return Allowance(REQUESTS, requests, "day", zone=zone, high=high, low=low)


def starts(rate: Rate) -> Allowance:
    """One start every so many seconds, and so many at once after a pause."""
    return Allowance(STARTS, 1, "second", rolling=True, burst=rate.burst, every=rate.interval, label=RATE)


@lru_cache(maxsize=1000)
def of_rate(text: str) -> tuple[Allowance, ...]:
    """What a rate stands for; nothing if it is empty. Raises `BadInput`."""
    rate = parse_rate(text)
    return (starts(rate),) if rate else ()


@lru_cache(maxsize=1000)
def with_budget(text: str, requests: int | None, zone: str, high: int, low: int) -> tuple[Allowance, ...]:
    """The allowances in the text of a limit and its daily budget. Of a row that says both, the smaller number
    counts: rows of earlier releases may."""
    stated = allowances_in(text)
    if requests is None:
        return stated
    budget = daily_budget(requests, zone, high=high, low=low)
    same = next((each for each in stated if each.name == DAILY_BUDGET), None)
    if same is None:
        return (budget, *stated)
    smaller = replace(same, amount=min(same.amount, requests))
    return tuple(smaller if each is same else each for each in stated)


class SaidTwice(NamedTuple):
    """A field that is short for an allowance which is stated, too."""

    field: str
    short: str
    allowance: Allowance

    def __str__(self) -> str:
        name = self.field.replace("_", " ")
        return (
            f"the {name} {self.short} and the allowance {self.allowance} say the same: state one of them; "
            f"set the {name} to none, or leave the allowance out"
        )


def said_twice(text: str, rate: str, requests: int | None) -> SaidTwice | None:
    """What the allowances in the text of a limit say that its rate or its daily budget says: starts in the
    same period, requests a day. All three must be readable."""
    of_rate = parse_rate(rate)
    for each in allowances_in(text):
        if requests is not None and each.name == DAILY_BUDGET:
            return SaidTwice("daily_budget", f"{int(requests):,}", each)
        if of_rate and each.meter == STARTS and each.length == of_rate.period:
            return SaidTwice("rate", rate, each)
    return None


def without(text: str, allowance: Allowance) -> str:
    """The other allowances in the text of a limit."""
    return "; ".join(str(each) for each in allowances_in(text) if each != allowance)


def restated(text: str, before: str, after: str) -> str:
    """The allowances of a limit where other ones are stated than before: those that are stated otherwise than
    before as they are now, without those that are stated no more, and with what people added or changed."""
    now, was, new = ({each.name: each for each in allowances_in(some)} for some in (text, before, after))
    kept = {name: each for name, each in now.items() if name in new or was.get(name) != each}
    kept |= {name: each for name, each in new.items() if was.get(name) != each}
    return "; ".join(map(str, kept.values() if len(kept) <= MOST_OF_A_LIMIT else new.values()))
