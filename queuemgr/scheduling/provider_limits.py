"""What providers say is left of the meters of limits: reported by workers, shared by the fleet.

It is stored with the breaker of a limit, and tightens what people allow; it allows nothing itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import NamedTuple

from queuemgr.base import sql
from queuemgr.base.config import queue_settings
from queuemgr.base.meters import REQUESTS, STARTS, Amounts, amounts_of
from queuemgr.base.meters import from_text as amounts_from_text
from queuemgr.base.provider_left import (
    NOTHING_KNOWN,
    Answer,
    ByMeter,
    Left,
    ProviderLeft,
    Use,
    as_text,
    from_text,
)
from queuemgr.flows.outcomes import Failed
from queuemgr.scheduling import breakers
from queuemgr.scheduling.breakers import later
from queuemgr.scheduling.claims import service_keys
from queuemgr.scheduling.decision_input import RETRY_AFTER, LimitRule, provider_text, rule_for

LeftByMeter = Mapping[str, Left]
Change = Callable[[ProviderLeft], ProviderLeft]
Changes = Mapping[str, Mapping[str, Change]]
"""What is to be changed of what is known, by limit and meter."""


def limits_meant(limit_keys: str, meter: str, rules: Mapping[str, LimitRule]) -> tuple[str, ...]:
    """Which of its limits a service's answer is about: those that have an allowance of this meter, else all
    keys of services, as those that a Retry-After closes."""
    keys = service_keys(limit_keys)
    return tuple(key for key in keys if _allows(rule_for(rules, key), meter)) or keys


def _allows(rule: LimitRule, meter: str) -> bool:
    meters = {allowance.meter for allowance in rule.allowances}
    return meter in meters or (meter == REQUESTS and STARTS in meters)


def change(changes: Changes) -> set[str]:
    """Change what is known; returns the limits under which answers allow more now than before. The rows are
    locked in one order, as breakers lock them."""
    texts, more = list[tuple[str, str, str]](), set[str]()
    for name, before in sorted(breakers.lock(sorted(changes)).items()):
        known = {**from_text(before)}
        for meter, act in changes[name].items():
            was = known.get(meter, NOTHING_KNOWN)
            known[meter] = act(was)
            if _least(known[meter]) > _least(was):
                more.add(name)
        texts.append((as_text(known), name, before))
    breakers.save_provider_left(texts)
    return more


def _least(known: ProviderLeft) -> float:
    return min((answer.remaining for answer in known.answers), default=float("inf"))


def answered(answer: Answer, now: datetime) -> Change:
    return lambda known: known.answered(answer, now.timestamp())


def refused(failed: Failed, now: datetime) -> Change:
    """Until the time that the service asked for, or for a moment, nothing starts that uses the meter."""
    wait = queue_settings().breaker_seconds if failed.retry_after is None else failed.retry_after
    asked = "" if failed.retry_after is None else f", {RETRY_AFTER} {failed.retry_after:g} s"
    until = later(now, wait).timestamp()
    return lambda known: known.closed_until(until, f"429{asked}")


class Ended(NamedTuple):
    """A lease that ended without an answer, and what it used."""

    limit_keys: str
    started_at: datetime
    amounts: Amounts


def of_ended(leases: Collection[Ended], now: datetime) -> Changes:
    """What their ends change, of what a provider has said something about."""
    changes: dict[str, dict[str, Change]] = {}
    stored = _stored({name for lease in leases for name in service_keys(lease.limit_keys)})
    for lease in leases if stored else ():
        for name in service_keys(lease.limit_keys):
            for meter in stored.get(name, NOTHING_STORED).known.keys() & lease.amounts.keys():
                use = Use(lease.started_at.timestamp(), lease.amounts[meter])
                acts = changes.setdefault(name, {})
                acts[meter] = after(acts.get(meter), partial(_ended, use=use, now=now.timestamp()))
    return changes


def _ended(known: ProviderLeft, *, use: Use, now: float) -> ProviderLeft:
    return known.ended_unanswered(use, now)


def after(first: Change | None, second: Change) -> Change:
    """Both changes."""
    return second if first is None else lambda known: second(first(known))


class _Stored(NamedTuple):
    name: str
    text: str

    @property
    def known(self) -> ByMeter:
        return from_text(self.text)


NOTHING_STORED = _Stored("", "")

_READ = "SELECT name, provider_left FROM queuemgr_gate WHERE name IN ({names}) AND provider_left <> ''"


def _stored(names: Collection[str]) -> dict[str, _Stored]:
    if not names:
        return {}
    rows = sql.rows(_Stored, _READ.format(names=sql.marks(len(names))), list(names))
    return {row.name: row for row in rows}


class _Running(NamedTuple):
    name: str
    started_at: datetime | None
    answered: bool
    cost: int
    spent: int
    uses: str
    spent_uses: str


_RUNNING = """
    SELECT k.name, l.started_at, l.answered, l.cost, l.spent, l.uses, l.spent_uses
      FROM queuemgr_lease l JOIN queuemgr_routelimit k ON k.route_id = l.route_id
     WHERE k.name IN ({names}) AND (l.cost > 0 OR l.uses <> '')
"""


def left(texts: Mapping[str, str], now: datetime) -> dict[str, LeftByMeter]:
    """What may be used of meters under these limits, by what their rows say.

    Leases are read before what their ends add, so that one that ends meanwhile counts twice rather than
    never.
    """
    at = now.timestamp()
    names = [name for name, text in texts.items() if not _is_over(from_text(text), at)]
    if not names:
        return {}
    running: defaultdict[str, list[_Running]] = defaultdict(list)
    for lease in sql.rows(_Running, _RUNNING.format(names=sql.marks(len(names))), names):
        running[lease.name].append(lease)
    return {
        name: {
            meter: left
            for meter, known in stored.known.items()
            if (left := known.left(_uses(running[name], meter), at)) is not None
        }
        for name, stored in _stored(names).items()
    }


def _uses(leases: Iterable[_Running], meter: str) -> Iterable[Use]:
    """What these may use that no answer tells of: all that was reserved for what has not been answered, else
    what it has not said it used. What has not begun starts later than all else."""
    for lease in leases:
        reserved = amounts_of(lease.cost, lease.uses).get(meter, 0)
        started = lease.started_at.timestamp() if lease.started_at else float("inf")
        if lease.answered:
            spent = lease.spent if meter == REQUESTS else amounts_from_text(lease.spent_uses).get(meter, 0)
            reserved, started = max(0, reserved - spent), float("inf")
        if reserved:
            yield Use(started, reserved)


def sentence(text: str, now: datetime) -> str:
    """What a row says, what runs apart: `tokens: 200 left by the provider until 12:00:03 UTC; …`."""
    known = {meter: each.left([], now.timestamp()) for meter, each in from_text(text).items()}
    return "; ".join(provider_text(meter, left, now) for meter, left in sorted(known.items()) if left)


def prune(now: datetime, most: int) -> int:
    """Forget what is over, of so many limits at most; returns of how many."""
    statement = (
        "SELECT name, provider_left FROM queuemgr_gate WHERE provider_left <> '' ORDER BY name LIMIT %s"
    )
    over = [row for row in sql.rows(_Stored, statement, [most]) if _is_over(row.known, now.timestamp())]
    breakers.save_provider_left([("", row.name, row.text) for row in over])
    return len(over)


def _is_over(known: ByMeter, at: float) -> bool:
    return all(left.is_over(at) for left in known.values())
