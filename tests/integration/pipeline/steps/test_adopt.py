"""Local files are copied with the checks of a download, and never modified."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from pipeline.steps.fetch.download import FetchOptions
from pipeline.steps.fetch.fetch import adopt
from queuemgr.base.errors import Aborted, StepFailed
from queuemgr.flows.abort_signal import AbortSignal
from tests.integration.pipeline.steps.downloads import HTML
from tests.integration.pipeline.steps.faulty_server import MIB, pdf

pytestmark = pytest.mark.usefixtures("loop_stays_quiet")


def test_a_file_of_the_user_is_copied_and_never_touched(tmp_path: Path, into: Path) -> None:
    original = tmp_path / "my paper.pdf"
    original.write_bytes(pdf(3 * MIB))
    adopted = adopt(original, into, FetchOptions())
    assert adopted.path.read_bytes() == original.read_bytes() == pdf(3 * MIB)
    assert adopted.size == 3 * MIB
    assert adopted.sha256 == hashlib.sha256(pdf(3 * MIB)).hexdigest()
    assert adopted.final_url == original.as_uri()


def test_a_file_passes_the_checks_of_a_download(tmp_path: Path, into: Path) -> None:
    page, large, pipe = tmp_path / "page.pdf", tmp_path / "large.pdf", tmp_path / "pipe.pdf"
    page.write_text(HTML)
    large.write_bytes(pdf(2 * MIB))
    os.mkfifo(pipe)
    limit = FetchOptions(max_bytes=MIB)
    expected = [(page, "not_pdf"), (large, "too_large"), (pipe, "refused_file")]
    expected += [(tmp_path, "refused_file"), (tmp_path / "absent.pdf", "not_found")]
    for path, kind in expected:
        with pytest.raises(StepFailed) as failure:
            adopt(path, into, limit)
        assert failure.value.kind == kind
        assert str(path) in failure.value.message
    assert list(into.iterdir()) == []


def test_an_abort_ends_a_copy(tmp_path: Path, into: Path) -> None:
    original, signal = tmp_path / "paper.pdf", AbortSignal()
    original.write_bytes(pdf())
    signal.abort("stopping")
    with pytest.raises(Aborted):
        adopt(original, into, FetchOptions(), signal)
    assert list(into.iterdir()) == []
