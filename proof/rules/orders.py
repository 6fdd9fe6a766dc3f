"""What an operator orders is done, and nothing that nobody ordered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from proof.records import Execution, History, Order
from proof.rules.violation import Violation

LOOK_SECONDS = 1.0
"""Seconds by which a lease's time may be later than the decision that granted it."""


def cancelled_by_order(history: History) -> Iterator[Violation]:
    """Nothing is cancelled that nobody asked to cancel, and what was is not leased afterwards, unless it is
    retried."""
    orders = _by_key(history)
    states = {execution.key: execution for execution in history.executions}
    for execution in history.executions:
        if execution.state == "cancelled" and not _asked(orders[execution.key], "cancel"):
            yield Violation("orders", f"{execution.key} was cancelled, and nobody asked")
    for attempt in history.attempts:
        cancel = _last_cancel_before(orders[attempt.key], attempt.leased - LOOK_SECONDS)
        taken_back = any(cancel and r.backup <= cancel.done <= r.restored for r in history.rewinds)
        if cancel and attempt.key in states and not taken_back:
            yield Violation("orders", f"{attempt.key} was leased after it was cancelled")


def retried_by_order(history: History) -> Iterator[Violation]:
    """What a person retried does not stay cancelled, unless it is cancelled again."""
    orders = _by_key(history)
    for execution in history.executions:
        if execution.state == "cancelled" and _retried_last(execution, orders[execution.key], history):
            yield Violation("orders", f"{execution.key} was retried and is still cancelled")


def _retried_last(execution: Execution, orders: Sequence[Order], history: History) -> bool:
    retries = [order for order in orders if order.verb == "retry" and order.changed]
    last = max(retries, key=lambda order: order.done, default=None)
    if last is None or any(r.backup <= last.done <= r.restored for r in history.rewinds):
        return False
    return not any(order.verb == "cancel" and order.done > last.began for order in orders)


def _last_cancel_before(orders: Sequence[Order], moment: float) -> Order | None:
    """A cancellation that was reported before then, with no retry that was or may have been carried out
    after it was asked for."""
    for cancel in (order for order in orders if order.verb == "cancel" and order.done < moment):
        if not any(order.verb == "retry" and order.done > cancel.began for order in orders):
            return cancel
    return None


def _asked(orders: Sequence[Order], verb: str) -> bool:
    return any(order.verb == verb for order in orders)


def _by_key(history: History) -> defaultdict[str, list[Order]]:
    by_key: defaultdict[str, list[Order]] = defaultdict(list)
    for order in history.orders:
        by_key[order.key].append(order)
    return by_key
