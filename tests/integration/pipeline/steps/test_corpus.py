"""Every file of the corpus has the expected outcome, if there is a corpus."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from bench.corpus import expected, outcome
from pipeline.steps.extract.extract import ExtractOptions, extract, with_page_marks
from queuemgr.flows.abort_signal import NEVER
from tests.corpus import CORPUS, FACTS, needs_corpus

pytestmark = needs_corpus

OPTIONS = replace(ExtractOptions(), page_seconds=8.0)


EVERY = 4
"""A file of so many is extracted in a usual run, all of them in the proof."""


def _file(number: int, fact: dict[str, Any]) -> Any:
    return pytest.param(fact, id=fact["file"], marks=[pytest.mark.slow_proof] if number % EVERY else [])


@pytest.mark.parametrize("fact", list(map(_file, count(), FACTS)))
def test_a_file_ends_with_the_expected_outcome(fact: dict[str, Any]) -> None:
    assert outcome(CORPUS / fact["file"], OPTIONS).ending in expected(fact)


def test_japanese_without_a_map_gives_its_real_letters() -> None:
    [page] = extract(CORPUS / "pdfminer.six__jo.pdf", OPTIONS, NEVER).pages
    assert "心象スケツチ" in page.text or "心象スケッチ" in page.text
    assert page.source == "pdfium"


def test_a_lone_surrogate_becomes_korean() -> None:
    """pypdf reads lone surrogates where a page says 보안기술, in a font without a map."""
    found = extract(CORPUS / "docling__skipped_1page.pdf", OPTIONS, NEVER)
    assert "보안기술" in with_page_marks(found.pages)
    with_page_marks(found.pages).encode()


def test_text_with_nul_is_clean_and_counted() -> None:
    """Almost 200 control characters of formulas, as PDFium reads it."""
    found = extract(CORPUS / "sample-files__GeoTopo-komprimiert.pdf", OPTIONS, NEVER)
    assert "\x00" not in with_page_marks(found.pages)
    assert found.cleaned >= 150
    assert found.problem == ""
