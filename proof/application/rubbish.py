"""What hostile code returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from queuemgr import Done, Failed, Skipped, Snoozed

ANYTHING: Any = Done
"""The outcomes, without their types."""


def _with(value: Any) -> Any:
    return Done(context={"value": value})


def _circle() -> Any:
    circle: list[Any] = []
    circle.append(circle)
    return _with(circle)


def _nest() -> Any:
    nest: list[Any] = []
    for _ in range(100_000):
        nest = [nest]
    return _with(nest)


def _of(outcome: Any, *args: Any, **more: Any) -> Any:
    return outcome(*args, **more)


MISDEEDS: Mapping[str, Callable[[], Any]] = {
    "a date in its context": lambda: _with(datetime.now(UTC)),
    "a set in its context": lambda: _with({1, 2}),
    "bytes in its context": lambda: _with(b"bytes"),
    "NaN": lambda: _with(float("nan")),
    "infinity": lambda: _with(float("inf")),
    "a circle": _circle,
    "a deep nest": _nest,
    "a huge integer": lambda: _with(10**5000),
    "text as its context": lambda: _of(Done, context="text"),
    "text": lambda: "done",
    "a number": lambda: 42,
    "True": lambda: True,
    "an object": object,
    "the class Done": lambda: Done,
    "a huge cost": lambda: Done(cost=2**70),
    "a negative cost": lambda: Done(cost=-5),
    "text as its cost": lambda: _of(Done, cost="three"),
    "an endless snooze": lambda: Snoozed(float("inf"), "for ever"),
    "a snooze of NaN": lambda: Snoozed(float("nan"), "no number"),
    "a snooze of text": lambda: _of(Snoozed, "soon", "no number"),
    "no reason to skip": lambda: _of(Skipped, None),
    "bytes as its message": lambda: _of(Failed, "network", b"bytes"),
    "a list as its kind": lambda: _of(Failed, ["network"], "a list"),
    "an endless wait": lambda: Failed("network", "wait for ever", retry_after=float("inf")),
    "a NUL": lambda: _with("a\x00b"),
    "half a surrogate": lambda: _with("half \ud83d of it"),
    "a kind too long": lambda: Failed("k" * 300, "a long kind"),
}
