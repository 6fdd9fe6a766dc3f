"""Input that a step cannot use fails its execution once, without a traceback."""

from __future__ import annotations

import logging

import pytest

from queuemgr import AbortSignal, BadInput
from queuemgr.flows.flow import all_error_kinds
from queuemgr.flows.outcomes import Failed
from queuemgr.worker.application_code import outcome_of


def test_bad_input_in_a_step_is_an_error_kind_of_its_own_and_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    def step() -> None:
        raise BadInput("'x' cannot be used: write y")

    with caplog.at_level(logging.WARNING):
        result = outcome_of(step, AbortSignal())
    assert result == Failed("bad_input", "'x' cannot be used: write y", blames_service=False)
    assert not caplog.records, "no traceback is logged"
    assert all_error_kinds()["bad_input"].max_attempts == 1
