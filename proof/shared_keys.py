"""Work that is to be done once however often it is asked for, and batches that call something at their end:
asked for by several processes at once, so that the database must decide who was first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from proof.records import OpenedBatch, UniqueCall

RULES = ("skip", "replace", "debounce")
THINGS = 2
"""Things under each rule, so that calls of the same meet."""

FLOW = "patient"
EVENTS = ("on_complete", "on_success", "on_failure")

Do = Callable[..., tuple[bool, str]]


class SharedKeys:
    """One who asks, by a console of its own. What is not acknowledged is not recorded."""

    def __init__(self, name: str, seed: int, do: Do) -> None:
        self._name, self._do, self._rng = name, do, Random(f"{name} {seed}")
        self._asked = 0
        self.calls: list[UniqueCall] = []
        self.batches: list[OpenedBatch] = []

    def call(self) -> None:
        """Enqueue what may be there already."""
        self._asked += 1
        rule = self._rng.choice(RULES)
        thing = f"{rule}-{self._rng.randrange(THINGS)}"
        key = f"{thing}.{self._name}{self._asked}"
        began = time.time()
        done, got = self._do("unique", FLOW, key, rule, thing, round(self._rng.uniform(0, 0.8), 2))
        if done:
            self.calls.append(UniqueCall(thing, rule, f"{FLOW}/{got}", began, time.time()))

    def open(self) -> None:
        """Open a batch, another in it, and close both; each may be empty. Repeated, it says so."""
        self._asked += 1
        name = f"batch-{self._name}{self._asked}"
        counts = [self._rng.choice((0, 1, 3, 6)), self._rng.choice((0, 2, 4))]
        for _ in range(TRIES):
            done, said = self._do("fan-in", name, counts, round(self._rng.uniform(0, 0.5), 2))
            if done or "is called" in said:
                self.batches += [OpenedBatch(each, time.time()) for each in names(name)]
                return
            time.sleep(0.5)


TRIES = 3


def names(batch: str) -> Sequence[str]:
    """The names of a batch and of the one in it."""
    return batch, f"{batch}-within"


def rule_of(rule: str) -> Any:
    """What a rule is to the product."""
    from queuemgr import Unique

    rules = {
        "skip": Unique(keys=["thing"]), "replace": Unique(keys=["thing"], on_conflict="replace"),
        "debounce": Unique(keys=["thing"], debounce=1, at_most=3),
    }  # fmt: skip
    return rules[rule]
