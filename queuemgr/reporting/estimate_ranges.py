"""How far estimates are from what happens, as `python -m bench.estimates` measured (docs/benchmarks.md).

Whatever shows an estimated moment shows its range: texts and pages by `about`, data by `with_ranges`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from queuemgr.base.time_text import in_zone, moment_text


class Range(NamedTuple):
    """What eight of ten lie within, as multiples of the predicted time ahead."""

    least: float
    most: float

    def of(self, at: datetime, now: datetime) -> tuple[datetime, datetime]:
        """Its 10th and 90th percentile; what is past is known."""
        ahead = max(at - now, timedelta())
        least, most = (now + ahead * each if ahead else at for each in self)
        return least, most

    def amounts(self, left: int, at_end: int) -> tuple[int, int]:
        """How much is left at a moment, where `at_end` is predicted: what takes longer uses less by then."""
        used = left - at_end
        return max(0, left - round(used / self.least)), left - round(used / self.most)


Kind = Literal["start", "end of one", "end", "budget"]

RANGES: Mapping[Kind, Range] = {
    "start": Range(0.88, 1.29),
    "end of one": Range(0.88, 1.33),
    "end": Range(0.92, 1.69),
    "budget": Range(0.86, 1.54),
}
"""Of the start and the end of one execution; of the end of much work, as of a phase or a batch; and of the
moment at which a budget is used up."""


def about(at: datetime | None, of: Kind, now: datetime) -> str:
    """`14:32:07 UTC (8 of 10: 14:30:12 to 14:35:40 UTC)`; empty for None."""
    if at is None:
        return ""
    least, most = RANGES[of].of(at, now)
    days = {in_zone(each).date() for each in (now, at, least, most)}
    first = f"{in_zone(least):%H:%M:%S}" if len(days) == 1 else moment_text(least, now)
    return f"{moment_text(at, now)} (8 of 10: {first} to {moment_text(most, now)})"


def with_ranges(found: dict[str, Any], now: datetime, **of: Kind) -> dict[str, Any]:
    """With the 10th and the 90th percentile of each moment named: `eta_p10` and `eta_p90` beside `eta`."""
    more: dict[str, datetime | None] = {}
    for name, kind in of.items():
        at = found[name]
        ends = RANGES[kind].of(at, now) if at else (None, None)
        more[f"{name}_p10"], more[f"{name}_p90"] = ends
    return found | more
