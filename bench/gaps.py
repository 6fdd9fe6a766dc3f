"""How long a slot is idle between the end of one task and the start of the next."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles


def gaps_ms(starts: Sequence[int], ends: Sequence[int], slots: int) -> list[float]:
    """Idle milliseconds of each freed slot while all slots were busy.

    In a full fleet the i-th end frees a slot for the (i + slots)-th start, whichever slot it is; ends after
    the last start free no slot for another and are left out.
    """
    starts, ends = sorted(starts), sorted(ends)
    pairs = zip(ends, starts[slots:], strict=False)
    return [max(0, start - end) / 1e6 for end, start in pairs]


def read(trace: Path) -> tuple[list[int], list[int]]:
    """Starts and ends (nanoseconds) from a trace file."""
    moments: dict[str, list[int]] = {"start": [], "end": []}
    for line in trace.read_text().splitlines():
        event = json.loads(line)
        moments[event["event"]].append(event["monotonic_ns"])
    return moments["start"], moments["end"]


def shown(gaps: Sequence[float]) -> tuple[float, float]:
    """Median and 99th percentile."""
    return median(gaps), quantiles(gaps, n=100)[98]
