"""High priority goes first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from proof.records import Attempt, Fault, History
from proof.rules.violation import Violation

ORDER_SECONDS = 2.0
"""Seconds high-priority work that could start may wait while younger low-priority work starts."""

ORDER_SECONDS_IN_TROUBLE = 30.0
"""The same while messages may be lost: a lease whose message is lost is granted again after seconds, and
that message may be lost too. While faults take workers, with the messages those had fetched, that happens
again and again, so the time of such faults is added."""

AFTERMATH_SECONDS = 8.0
"""Seconds after the end of a fault during which leases may still wait for messages lost in it."""


def high_goes_first(history: History) -> Iterator[Violation]:
    """No low-priority work starts while older high-priority work of its phase waits that would be admitted
    too: it has no other keys and uses no more of any meter. Counted beyond a tolerance, which is wider
    during faults, and not for what an operator touched, a restored backup took back, or a step of the clock
    by days made old enough to be raised."""
    for low, high, since in comparable(history):
        waited = low.leased - since
        patience = _patience(since, low.leased, history.faults)
        if low.leased < high.leased and waited > patience:
            text = f"{low.key} started while {high.key} had waited {waited:.1f} s"
            yield Violation("order", text)


def comparable(history: History) -> Iterator[tuple[Attempt, Attempt, float]]:
    """Low-priority work, with the older high-priority work that waited when it was enqueued and must start
    first, and since when that waited."""
    touched = {order.key for order in history.orders}
    created = {e.key: e.created for e in history.executions if e.key not in touched}
    firsts = [a for a in _first_attempts(history.attempts) if a.key in created]
    highs = [attempt for attempt in firsts if attempt.priority == "high"]
    for low in (attempt for attempt in firsts if attempt.priority == "low"):
        for high in highs:
            since, waited_for = created[high.key], created[low.key]
            excused = _rewound(history, since, low) or _aged(history, waited_for, low)
            if since < waited_for < high.leased and _alike(high, low) and not excused:
                yield low, high, since


def _first_attempts(attempts: Iterable[Attempt]) -> list[Attempt]:
    firsts: dict[str, Attempt] = {}
    for attempt in sorted(attempts, key=lambda a: a.leased):
        firsts.setdefault(attempt.key, attempt)
    return list(firsts.values())


def _alike(high: Attempt, low: Attempt) -> bool:
    """Whether all that admits the low-priority one would admit the high-priority one."""
    fewer_keys = set(high.limits) <= set(low.limits)
    cheaper = high.cost <= low.cost and all(n <= low.amount(meter) for meter, n in high.reserved)
    return high.phase == low.phase and fewer_keys and cheaper


def _rewound(history: History, since: float, low: Attempt) -> bool:
    return any(since < rewind.restored and low.leased > rewind.backup for rewind in history.rewinds)


def _aged(history: History, since: float, low: Attempt) -> bool:
    return any(since <= step <= low.leased for step in history.steps)


def _patience(since: float, until: float, faults: Iterable[Fault]) -> float:
    losing = (fault for fault in faults if fault.messages)
    trouble = [f for f in losing if f.began <= until and f.ended + AFTERMATH_SECONDS >= since]
    without_workers = sum(
        max(0.0, min(until, f.ended + f.bound) - max(since, f.began)) for f in trouble if f.leases
    )
    return ORDER_SECONDS_IN_TROUBLE + without_workers if trouble else ORDER_SECONDS
