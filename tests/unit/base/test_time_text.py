"""A duration is shown in at most two units, the larger first."""

from __future__ import annotations

import pytest

from queuemgr.base.time_text import duration_text


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-3, "0 s"), (0, "0 s"), (0.04, "40 ms"), (3.25, "3.2 s"), (9.97, "10 s"), (59.4, "59 s"),
        (59.7, "1 min"),
        (250, "4 min 10 s"), (240, "4 min"), (3_600, "1 h"), (4_330, "1 h 12 min"), (3_605, "1 h"),
        (86_399.9, "1 d"), (187_300, "2 d 4 h"), (864_000, "10 d"),
    ],
)  # fmt: skip
def test_a_duration_has_at_most_two_units(seconds: float, shown: str) -> None:
    assert duration_text(seconds) == shown
