"""Files built to exhaust their readers: each ends in time with an error kind, and leaves nothing behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from pipeline.steps.extract.extract import Extracted, ExtractOptions, extract
from queuemgr.base.errors import StepFailed
from queuemgr.flows.abort_signal import NEVER
from queuemgr.flows.flow import all_error_kinds
from tests.pdf_builder import (
    cut_array,
    document,
    empty_pages,
    giant_picture,
    long_string,
    nested_array,
    nested_dictionaries,
    nested_forms,
    operators,
    packed_gigabyte,
    same_content_again,
    self_drawing_form,
    text_content,
    written,
)
from tests.sandbox_processes import family

DEFAULTS = ExtractOptions()
HASTY = replace(DEFAULTS, page_seconds=1.5, document_seconds=30, max_pages=200)
SENTENCE = "The quick brown fox jumps over the lazy dog, and so it continues for a while."

SPARE_SECONDS = 30
"""Extra seconds allowed to end it."""

SPARE_BYTES = 64 << 20
"""The memory a worker may keep: allocators do not return all of it at once."""


def endless_operators() -> bytes:
    return document([operators()])


BOMBS = {
    cut_array: ("damaged",),
    empty_pages: ("partial",),
    endless_operators: ("resource_limit",),
    giant_picture: ("no text",),
    long_string: ("resource_limit", "partial"),
    nested_array: ("no text",),
    nested_dictionaries: ("no text", "partial", "damaged"),
    nested_forms: ("resource_limit",),
    packed_gigabyte: ("resource_limit",),
    same_content_again: ("resource_limit",),
    self_drawing_form: ("no text", "partial"),
}
"""The allowed outcomes: an error kind, text marked as partial, or pages without text."""


def outcome(pdf: Path) -> str:
    try:
        found = extract(pdf, HASTY, NEVER)
    except StepFailed as failed:
        assert failed.kind in all_error_kinds()
        return failed.kind
    if found.problem:
        return "partial"
    return "no text" if len(found.without_text) == found.page_count else "whole"


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_a_bomb_ends_in_time_with_a_named_outcome_and_leaves_nothing(
    tmp_path: Path, bomb: Callable[[], bytes]
) -> None:
    pdf = written(tmp_path, bomb())
    us = psutil.Process()
    before, start = us.memory_info().rss, time.monotonic()
    assert outcome(pdf) in BOMBS[bomb]
    assert time.monotonic() - start < HASTY.document_seconds + SPARE_SECONDS
    assert us.memory_info().rss - before < SPARE_BYTES
    assert family() == []


@pytest.mark.parametrize("kind", ["resource_limit", "damaged", "encrypted", "no_pages", "not_pdf"])
def test_a_faulty_file_is_not_retried(kind: str) -> None:
    """Not retried more than its policy."""
    assert all_error_kinds()[kind].max_attempts == 1


def test_the_pages_around_a_bomb_are_kept(tmp_path: Path) -> None:
    """The others continue."""
    content = document([text_content("One", SENTENCE), operators(), text_content("Three", SENTENCE)])
    found: Extracted = extract(written(tmp_path, content), HASTY, NEVER)
    assert [page.text[:5] for page in found.pages] == ["One\nT", "", "Three"]
    assert found.pages[1].source == "failed"
    assert found.problem.startswith("Page 2 could not be read (PDFium: it exceeded the time limit of a page")
    assert found.without_text == (2,)


@pytest.mark.slow_proof
def test_a_bomb_stays_within_its_memory(tmp_path: Path) -> None:
    """70 KB that become 70 million letters reach the child's limit, not the worker's."""
    tight = replace(DEFAULTS, memory_bytes=300 << 20, page_seconds=30)
    try:
        found = extract(written(tmp_path, long_string()), tight, NEVER)
    except StepFailed as failed:
        assert failed.kind == "resource_limit"
    else:
        assert found.problem
    assert family() == []
