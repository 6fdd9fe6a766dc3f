"""What the download tests share: options, and the failure of a download that must fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.steps.fetch.download import FetchOptions
from pipeline.steps.fetch.fetch import fetch
from pipeline.steps.http.client import HttpClient
from queuemgr.base.errors import StepFailed
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from queuemgr.flows.flow import all_error_kinds

LOCAL = FetchOptions(allow_private=True, deadline=20.0)
CLOSED = FetchOptions(deadline=20.0)
HTML = "<!DOCTYPE html><html><title>Sign\n in</title>" + "<p>" * 900


def refused(
    url: str, into: Path, http: HttpClient, options: FetchOptions = LOCAL, signal: AbortSignal = NEVER
) -> StepFailed:
    """The failure of a download that must fail, and must leave nothing behind."""
    with pytest.raises(StepFailed) as failure:
        fetch(url, into, options, http, signal)
    assert list(into.iterdir()) == []
    assert failure.value.kind in all_error_kinds()
    return failure.value
