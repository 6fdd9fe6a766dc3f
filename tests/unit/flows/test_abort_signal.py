"""The abort signal and its hooks."""

from __future__ import annotations

import logging

import pytest

from queuemgr.base.errors import Aborted
from queuemgr.flows.abort_signal import AbortSignal


def test_a_hook_that_raises_keeps_no_later_hook_from_running(caplog: pytest.LogCaptureFixture) -> None:
    signal, ran = AbortSignal(), []

    def breaks() -> None:
        raise OSError("no such process")

    with (
        signal.hooked(lambda: ran.append("first")),
        signal.hooked(breaks),
        signal.hooked(lambda: ran.append("last")),
        caplog.at_level(logging.ERROR),
    ):
        signal.abort("stop")
    assert ran == ["first", "last"]
    assert "no such process" in caplog.text
    with pytest.raises(Aborted, match="stop"):
        signal.raise_if_aborted()
