"""`queue watch` on a terminal: it fits, has no empty rows, and shows the most important first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from queuemgr.cli.watch_screen import Line, Part, drawn, fitted
from queuemgr.models import Worker
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.reporting import dashboard
from queuemgr.scheduling import limit_rows
from tests.integration.web.admin.dashboard_fleet import a_failed, a_fleet

KIM = Actor("kim", "command", "the disk is full of \x1b[31mpapers")


@pytest.mark.django_db
@pytest.mark.parametrize(("width", "height"), [(80, 23), (40, 8), (200, 60), (10, 1)])
def test_it_fits_whatever_the_terminal(
    width: int, height: int, sent: list[Any], make_worker: Callable[..., Worker]
) -> None:
    limit_rows.sync()
    a_fleet(make_worker)
    controls.pause("wrap", KIM)
    a_failed("doc:1", message="first line\nsecond")
    screen = drawn(dashboard.read(), width, height)
    lines = screen.plain.splitlines()
    assert 0 < len(lines) <= height
    assert max(map(len, lines)) <= width
    assert "\x1b" not in screen.plain
    if (width, height) == (80, 23):
        assert "4 running, 5 waiting, 1 failed" in lines[0]
        assert "phase:wrap paused by kim" in lines[1]
        names = {line[:8].strip() for line in lines}
        assert names >= {"alarms", "waits", "fleet", "queues", "limits", "workers"}
        assert "wrap.high" not in screen.plain
        assert any("yellow" in str(span.style) for span in screen.spans)


def test_each_part_has_its_least_before_any_has_more_and_what_is_left_out_is_counted() -> None:
    parts = [Part(name, [Line(f"{name}{n}") for n in range(9)], 2) for name in ("a", "b", "c")]
    assert [text.split() for text, _ in fitted(parts, 7)] == [
        ["a", "a0"], ["a1"], ["a2", "(+6", "more)"],
        ["b", "b0"], ["b1", "(+7", "more)"], ["c", "c0"], ["c1", "(+7", "more)"],
    ]  # fmt: skip
    assert [text.split()[0] for text, _ in fitted(parts, 1)] == ["a"]
    assert fitted([Part("a", [], 2)], 5) == []
