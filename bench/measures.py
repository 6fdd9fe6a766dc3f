"""Statistics of samples: typical and slow values, and the ratio of one run to another. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

from rich.table import Table


@dataclass(frozen=True)
class Spread:
    """A median, with the lowest and highest sample."""

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.lowest:.2f} - {self.highest:.2f})"


def spread(values: Sequence[float]) -> Spread:
    """The median of these samples, with the lowest and highest."""
    return Spread(median(values), min(values), max(values))


def ratios(these: Sequence[float], to: Sequence[float]) -> Spread:
    """The ratio round by round, so that a slowing machine slows both sides of each."""
    return spread([mine / theirs for mine, theirs in zip(these, to, strict=True)])


@dataclass(frozen=True)
class Typical:
    """The median and the 99th percentile of `count` samples."""

    median: float
    p99: float
    samples: int


def typical(samples: Sequence[float]) -> Typical:
    """Median and 99th percentile; a single sample is both."""
    if len(samples) == 1:
        return Typical(samples[0], samples[0], 1)
    return Typical(median(samples), quantiles(samples, n=100, method="inclusive")[98], len(samples))


@dataclass(frozen=True)
class Aim:
    """The bound a value should meet: a minimum with `at_least`, else a maximum."""

    bound: float
    at_least: bool = False

    def is_met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def verdict(self, value: float) -> str:
        """`aim <= 1.5: met`"""
        sign = ">=" if self.at_least else "<="
        return f"aim {sign} {self.bound:g}: {'met' if self.is_met(value) else 'not met'}"


@dataclass(frozen=True)
class Row:
    """One row of a table of rates compared with the first of them."""

    name: str
    rate: float
    ratio: Spread
    verdict: str = ""

    def cells(self) -> list[str]:
        return [self.name, f"{self.rate:,.0f}/s", str(self.ratio), self.verdict]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def rows_of(rates: dict[str, list[float]], to: str, aims: dict[str, Aim] | None = None) -> list[Row]:
    """A row for each, with its ratio to the one named `to`, round by round."""
    aims = aims or {}
    rows = []
    for name, found in rates.items():
        ratio = ratios(found, rates[to])
        verdict = aims[name].verdict(ratio.median) if name in aims else ""
        rows.append(Row(name, median(found), ratio, verdict))
    return rows


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table as all benchmarks print them: names left-aligned, values right-aligned."""
    made = Table(title=f"\n{title}", title_justify="left")
    for position, column in enumerate(columns):
        made.add_column(column, justify="right" if position else "left")
    for row in rows:
        made.add_row(*row)
    return made
