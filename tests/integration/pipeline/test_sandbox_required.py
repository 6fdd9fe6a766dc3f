"""`SLUICE_REQUIRE_SANDBOX`: what reads PDFs is confined, or none is read."""

from __future__ import annotations

import subprocess

import pytest

from pipeline import sandbox_required
from pipeline.config import pipeline_settings
from queuemgr import StepFailed


@pytest.mark.parametrize(
    "lacks",
    [("Landlock (Function not implemented)",), subprocess.TimeoutExpired("probe", 10), OSError()],
    ids=repr,
)
def test_where_it_is_required_no_pdf_is_read_without_it(
    lacks: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer() -> tuple[str, ...]:
        if isinstance(lacks, Exception):
            raise lacks
        assert isinstance(lacks, tuple)
        return lacks

    monkeypatch.setattr(sandbox_required, "_lacking", answer)
    sandbox_required.refuse_without_sandbox()
    required = pipeline_settings().model_copy(update={"require_sandbox": True})
    monkeypatch.setattr(sandbox_required, "pipeline_settings", lambda: required)
    with pytest.raises(StepFailed) as refused:
        sandbox_required.refuse_without_sandbox()
    assert refused.value.kind == "no_sandbox"
    monkeypatch.setattr(sandbox_required, "_lacking", lambda: ())
    sandbox_required.refuse_without_sandbox()
