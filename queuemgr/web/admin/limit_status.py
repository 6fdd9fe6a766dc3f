"""The status of limits in words: usage, breakers, and what waits; read for all limits of a page at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from queuemgr.base import limit_shorthand
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.time_text import moment_text
from queuemgr.models import Limit
from queuemgr.reporting import burn_down, explain
from queuemgr.reporting.allowances import AllowanceStatus
from queuemgr.reporting.burn_down import Line, Windows
from queuemgr.reporting.explain import Stopped
from queuemgr.reporting.remaining_work import RemainingWork, remaining_work, with_used_of
from queuemgr.scheduling.claims import rule_resolver
from queuemgr.scheduling.decision_input import CLOSED, NO_USE, BreakerState, Usage, provider_text
from queuemgr.scheduling.limit_rules import allowances_of, rule_from
from queuemgr.scheduling.provider_limits import LeftByMeter
from queuemgr.scheduling.snapshot import read_snapshot

NAMED = 3
"""Keys or reasons that a cell of a list names; further ones are counted."""


@dataclass(frozen=True)
class LimitStatus:
    """A limit with usage and breaker of each of its keys (only its own name unless it is a pattern), what
    providers say is left of them, and the reasons why work waits on it, most frequent first."""

    limit: Limit
    now: datetime
    uses: Mapping[str, Usage]
    breaker_states: Mapping[str, BreakerState]
    waits: Sequence[Stopped]
    remaining: RemainingWork
    provider: Mapping[str, LeftByMeter]

    @property
    def is_pattern(self) -> bool:
        return self.limit.name.endswith("*")

    def use(self, key: str) -> Usage:
        return self.uses.get(key, NO_USE)

    def state(self, key: str) -> BreakerState:
        return self.breaker_states.get(key, CLOSED)

    @property
    def keys(self) -> list[str]:
        """The keys of a pattern with usage, or whose breaker is not closed, the most used first."""
        used = self.uses.items()
        keys = {k for k, use in used if use.leases or use.meters}
        keys |= {key for key in self.breaker_states if self.breaker(key) or self.next_start(key)}
        return sorted(keys, key=lambda key: (-self.use(key).running, not self.breaker(key), key))

    def in_use(self) -> str:
        """`3 / 10`; for a pattern, the number of keys in use and the highest usage."""
        cap = f"{self.limit.max_running:,}" if self.limit.max_running else "no cap"
        if not self.is_pattern:
            return f"{self.use(self.limit.name).running:,} / {cap}"
        running = [use.running for use in self.uses.values() if use.running]
        if not running:
            return f"none / {cap} each"
        keys = f"{len(running):,} key{'' if len(running) == 1 else 's'}"
        return f"{keys}, the fullest {max(running):,} / {cap}"

    def rate(self) -> str:
        """The rate as written, and when it allows the next start if not now."""
        if not self.limit.rate:
            return ""
        if self.is_pattern:
            return f"{self.limit.rate} each"
        next_start = self.next_start(self.limit.name)
        return f"{self.limit.rate}\n{next_start}" if next_start else self.limit.rate

    def next_start(self, key: str) -> str:
        """`next in 2.4 s, 12:00:03 UTC`; empty if the rate allows a start now."""
        wait = self.use(key).start_wait(limit_shorthand.of_rate(self.limit.rate), self.now)
        if wait < 0.05:
            return ""
        return f"next in {wait:,.1f} s, {moment_text(self.now + timedelta(seconds=wait), self.now)}"

    def allowances(self, key: str = "") -> list[str]:
        """What is used of each and when it begins anew, of its daily budget, too; of a pattern, without a
        key, as they are stated."""
        if self.is_pattern and not key:
            return [f"{allowance} each" for allowance in allowances_of(self.limit)]
        return [each.text(self.now) for each in self.allowance_statuses(key or self.limit.name)]

    def forecasts(self) -> list[str]:
        """What becomes of its allowances; of a pattern, of the keys that have less than is waited for."""
        keys = self.keys if self.is_pattern else [self.limit.name]
        each = ((key, status) for key in keys for status in self.allowance_statuses(key))
        of = "{0} {1}" if self.is_pattern else "{1}"
        texts = [of.format(key, text) for key, s in each if (text := s.forecast_text(self.now))]
        return some_of(texts, "more forecasts", NAMED * 2)

    def allowance_statuses(self, key: str) -> list[AllowanceStatus]:
        """Each allowance of a key, with its forecast."""
        rule, use = rule_from(self.now, self.limit), self.use(key)
        if getattr(self.limit, "previewed", False):
            use = with_used_of(key, rule, use, self.now)
        return self.remaining.statuses(key, rule, use)

    def burn_downs(self) -> Mapping[str, Line]:
        """What was and will be left of its allowances, by their names."""
        name, zone = self.limit.name, rule_from(self.now, self.limit).budget_zone
        return burn_down.of_limit(name, self.allowance_statuses(name), zone, self.now)

    def used_lately(self) -> Mapping[str, Windows]:
        """What was used of its allowances that refill all the time, by their names."""
        return burn_down.lately(self.limit.name, rule_from(self.now, self.limit).allowances, self.now)

    def breaker(self, key: str) -> str:
        """Its breaker unless it is closed, and what its provider says is left."""
        left = sorted(self.provider.get(key, {}).items())
        texts = [
            self.state(key).text(self.now),
            *(provider_text(meter, each, self.now) for meter, each in left),
        ]
        return "; ".join(text for text in texts if text)

    def breakers(self) -> str:
        """What holds its keys back, the first few by name."""
        if not self.is_pattern:
            return self.breaker(self.limit.name)
        texts = [f"{key} {text}" for key in sorted(self.breaker_states) if (text := self.breaker(key))]
        return "\n".join(some_of(texts, "more keys"))

    def waits_on_it(self) -> list[str]:
        return some_of([f"{s.waiting:,} wait: {s.text}" for s in self.waits], "more reasons")


def limit_statuses(limits: Iterable[Limit]) -> list[LimitStatus]:
    """The current status of these limits."""
    rows, snapshot = list(limits), read_snapshot(database_now())
    owner = rule_resolver(Limit.objects.values_list("name", flat=True))
    uses: defaultdict[str, dict[str, Usage]] = defaultdict(dict)
    states: defaultdict[str, dict[str, BreakerState]] = defaultdict(dict)
    waits: defaultdict[str, list[Stopped]] = defaultdict(list)
    for key, use in snapshot.use.items():
        uses[owner(key) or key][key] = use
    for key, state in snapshot.breaker_states.items():
        states[owner(key) or key][key] = state
    for stop in explain.what_stops_work(route_reasons=explain.reasons(snapshot)):
        waits[owner(stop.limit) or stop.limit].append(stop)
    remaining = remaining_work(snapshot.rules, snapshot.now)
    provider = snapshot.provider
    return [
        LimitStatus(row, snapshot.now, uses[row.name], states[row.name], waits[row.name], remaining, provider)
        for row in rows
    ]


def some_of(texts: Sequence[str], what: str, maximum: int = NAMED) -> list[str]:
    """The first few, and the number of the others."""
    left = len(texts) - maximum
    return [*texts[:maximum], f"and {left:,} {what}"] if left > 0 else list(texts)
