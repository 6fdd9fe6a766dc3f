"""What a step raised becomes an outcome, whatever reading it does."""

from __future__ import annotations

import pytest

from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcomes import Failed
from queuemgr.worker.application_code import as_result
from tests.acceptance.hostile_exceptions import HOSTILE_EXCEPTIONS, NoInit


@pytest.mark.parametrize("what", HOSTILE_EXCEPTIONS)
def test_whatever_reading_an_exception_does_it_is_an_unexpected_failure(what: str) -> None:
    result = as_result(HOSTILE_EXCEPTIONS[what], AbortSignal())
    assert isinstance(result, Failed)
    assert result.kind == "unexpected"
    assert result.message


def test_a_failure_that_cannot_be_read_is_named_with_what_reading_it_raised() -> None:
    result = as_result(NoInit(), AbortSignal())
    assert isinstance(result, Failed)
    assert result.message == (
        "NoInit: ; reading it raised AttributeError: 'NoInit' object has no attribute 'kind'"
    )
