"""Numbers as compact text, and back: `1-480, 482, 490-500`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def ranges(numbers: Iterable[int]) -> str:
    """The numbers in ascending order, consecutive ones as a range."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def numbers_in(text: str) -> Iterator[int]:
    """The numbers in text written by `ranges`, ascending."""
    for run in filter(None, text.split(", ")):
        first, _, last = run.partition("-")
        yield from range(int(first), int(last or first) + 1)
