"""Limits with allowances that bind, of every kind of limit, by the calendar and rolling: what they allow at
the start, in edits, and in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

FOREVER = "1000000 tokens in total; 100000 tokens/week rolling burst 1000000"
"""What each tenant may use of tokens: more than a run does. As nothing of it is refilled within a run that
would make a difference, what its clock says in the end is what was used, to the token."""

OF_BATCHES = "600 tokens/minute burst 90; 200 tokens/minute calendar"
"""Of a batch: of its members, which use `PER_MEMBER` each, one starts at once, and three in a minute."""

BATCHES_OPEN = "60000 tokens/minute burst 9000; 20000 tokens/minute calendar"

PER_MEMBER = 60


class Metered(NamedTuple):
    """Allowances with a place for each number that edits change. `numbers`: what each may be, the first at
    the start; of a period that outlasts the run it is the first alone, which edits raise as time passes.
    `kept`: further ones, which no edit changes."""

    text: str
    numbers: Sequence[Sequence[float]]
    kept: str = ""

    def at_start(self) -> str:
        return self._with([of[0] for of in self.numbers])

    def edited(self, rng: Random, second: float) -> str:
        return self._with(
            [rng.choice(of) if len(of) > 1 else _raised(of[0], rng, second) for of in self.numbers]
        )

    def wide(self) -> str:
        """So much that nothing waits for it."""
        return self._with([of[0] * 10_000 for of in self.numbers])

    def _with(self, numbers: Sequence[float]) -> str:
        stated = self.text.format(*(f"{number:.12g}" for number in numbers))
        return f"{self.kept}; {stated}" if self.kept else stated


def _raised(number: float, rng: Random, second: float) -> float:
    """More often than it is lowered."""
    return round(number * (1 + second / 60 * rng.uniform(0.5, 1.5)))


ROLLING, CALENDAR = "model:rolling", "model:calendar"

METERED: Mapping[str, Metered] = {
    "fleet": Metered("{} usd/hour burst {}; {} usd/minute calendar",
                     ((9, 7, 12), (0.04, 0.03), (0.08, 0.06, 0.12))),
    "phase:expensive": Metered("{} bytes/hour burst {}; {} bytes/hour calendar",
                               ((180_000, 150_000, 240_000), (2500, 2200), (3000,))),
    "tenant:*": Metered("{} usd/hour burst {}; {} usd/minute calendar",
                        ((5, 4, 7), (0.03, 0.025), (0.05, 0.04, 0.06)), FOREVER),
    "pool:*": Metered("{} tokens/minute burst {}; {} tokens/minute calendar",
                      ((300, 250, 400), (220, 200), (250, 220, 300))),
    ROLLING: Metered("{} tokens/minute burst {}", ((900, 700, 800), (400, 300, 350))),
    CALENDAR: Metered("{} tokens/minute calendar; {} tokens/day in Asia/Kathmandu",
                      ((300, 250, 400), (600,))),
}  # fmt: skip
"""Little, so that it binds on a slow machine, too."""

AMOUNTS: Mapping[str, Sequence[float]] = {
    "tokens": (40, 100, 200), "usd": (0.005, 0.01, 0.02), "bytes": (500, 1000, 2000),
}  # fmt: skip
"""What a step is estimated to use of a meter."""

PARTS = (0.01, 0.6, 0.9, 1, 1.3)
"""What it uses of its estimate."""


def amounts(rng: Random, meter: str) -> dict[str, str]:
    """An estimate, and what is used: less, as much, or more."""
    estimate = rng.choice(AMOUNTS[meter])
    used = estimate * rng.choice(PARTS)
    spent = f"{used:.6f}" if meter == "usd" else str(max(1, int(used)))
    return {"uses": f"{meter}={estimate}", "spends": f"{meter}={spent}"}
