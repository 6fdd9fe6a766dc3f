"""What a rule yields, and what a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from proof.records import History


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise: which one, and the evidence."""

    rule: str
    text: str


Rule = Callable[[History], Iterable[Violation]]
