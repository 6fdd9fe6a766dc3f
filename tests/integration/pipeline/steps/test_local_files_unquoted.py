"""A file of this machine may be a secret, or somebody else's: an error names it and quotes nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.steps.extract.extract import ExtractOptions, extract
from pipeline.steps.fetch.download import FetchOptions
from pipeline.steps.fetch.fetch import adopt
from queuemgr import StepFailed
from queuemgr.flows.abort_signal import NEVER

SECRET = "a-secret-in-a-file"
BEGINNINGS = (
    "", "<html><head><title>", "<?xml version='1.0'?>", '{"password": "', "[", "%!PS", "PK\x03\x04",
    "\x1f\x8b", "\x89PNG", "root:*:20228:0:", "\x00\x01", "redis://:", "\ufeff<", " " * 2000,
)  # fmt: skip


@pytest.mark.parametrize("length", [1, 50, 5000])
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_a_local_file_that_is_no_pdf_is_named_and_nothing_of_it_is_quoted(
    tmp_path: Path, beginning: str, length: int
) -> None:
    file = tmp_path / "paper.pdf"
    file.write_text(beginning + SECRET + "\n" + "x" * length)
    with pytest.raises(StepFailed) as refused:
        adopt(file, tmp_path, FetchOptions(max_bytes=1 << 20, deadline=10))
    assert refused.value.kind == "not_pdf"
    assert str(file) in refused.value.message
    told = refused.value.message.replace(str(file), "").lower()
    for start in range(len(SECRET) - 5):
        assert SECRET[start : start + 6] not in told
    assert "root:" not in told and "redis" not in told


@pytest.mark.parametrize(
    "body",
    [
        f"xref\n0 1\n{SECRET} 65535 f\ntrailer << /Root {SECRET} >>\nstartxref\n9\n%%EOF",
        f"1 0 obj\n<< /Type /Catalog /Pages {SECRET} R >>\nendobj\ntrailer << /Root 1 0 R >>\n%%EOF",
    ],
    ids=["table", "objects"],
)
def test_a_damaged_pdf_is_described_and_nothing_of_it_is_quoted(tmp_path: Path, body: str) -> None:
    """The libraries that read it quote what they cannot read."""
    file = tmp_path / "paper.pdf"
    file.write_text(f"%PDF-1.4\n{body}")
    with pytest.raises(StepFailed) as refused:
        extract(file, ExtractOptions(), NEVER)
    for start in range(len(SECRET) - 5):
        assert SECRET[start : start + 6] not in refused.value.message
