"""Text of strangers is read in a child process, with its seconds and its memory."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from pipeline.steps.analyse.analyse import TEXT_LIMITS
from pipeline.steps.analyse.chunks import plan_chunks
from pipeline.steps.analyse.extractive import extractive_analysis
from pipeline.steps.analyse.marked_text import marked_before_references
from pipeline.steps.analyse.split_by_tokens import tokens_in
from pipeline.steps.extract.references import before_references, find_references
from pipeline.steps.fetch.landing_page import pdf_link
from pipeline.steps.grobid.tei import NAMESPACES
from pipeline.steps.pdf import text_child
from pipeline.steps.pdf.sandbox import ResourceLimits, output_limit
from pipeline.steps.pdf.text_sandbox import read_in_child
from queuemgr import NEVER, Aborted, AbortSignal, StepFailed

PAPER = "".join(
    (
        "[PAGE 1]\nOn leaks\n",
        *(f"We show that gate {n} on the long canal leaks a little water at night.\n" for n in range(60)),
        "References\n[1] A. Abel, Title, 10.1234/abc 2004.\n[2] B. Bebel, Other, 2005.\n",
    )
)
PAGE = b"<html><meta name='citation_pdf_url' content='/a.pdf'><title>x</title>"
LONG = "Words of a text that has no end. " * 150_000

QUICK = ResourceLimits(0.5, 0.5, 1 << 30, output_limit(5_000_000))


def read(function: str, limits: ResourceLimits = TEXT_LIMITS, **arguments: Any) -> Any:
    return read_in_child(function, limits, NEVER, **arguments)


def test_text_is_read_in_a_child_as_it_would_be_here() -> None:
    found = read("paper", text=PAPER, chunk_tokens=300, info={})
    here, body = find_references(PAPER), marked_before_references(PAPER)
    assert here.count == 2
    assert [entry["doi"] for entry in found["found"]["entries"]] == [each.doi for each in here.entries]
    assert found["chunks"] == len(plan_chunks(body, 300).chunks)
    assert read("chunks_of_paper", text=PAPER, chunk_tokens=300)["chunks"] == list(
        plan_chunks(body, 300).chunks
    )
    assert read("tokens", text=PAPER, ceiling=9_000) == tokens_in(PAPER, 9_000)
    own = read("sentences", text=PAPER, title_hint="", count=3)
    plain = extractive_analysis(before_references(PAPER), "", 3)
    assert own["summary"] == plain["summary"]
    assert [claim["text"] for claim in own["contributions"]] == plain["contributions"]
    quotes = [("gate 7 on the long canal", 1), ("gate 70 on the long canal", 1)]
    assert read("places", text=body, quotes=quotes) == [["verified", 1], ["not found", None]]
    page = base64.b64encode(PAGE).decode()
    assert read("landing_page", page=page, url="https://a.org/")["pdf"] == pdf_link(PAGE, "https://a.org/")


def test_a_text_that_takes_too_long_fails_within_its_seconds() -> None:
    began = time.monotonic()
    with pytest.raises(StepFailed) as failed:
        read("chunks_of_paper", QUICK, text=LONG, chunk_tokens=256)
    assert failed.value.kind == "resource_limit" and "time limit" in failed.value.message
    assert time.monotonic() - began < 10


def test_a_text_whose_reader_fails_is_named_without_quoting_it() -> None:
    with pytest.raises(StepFailed) as failed:
        read("sentences", text="secret words", title_hint="", count="no number")
    assert failed.value.kind == "crashed" and "secret" not in failed.value.message


ENTRY = f"<biblStruct><note type='raw_reference'>{'A. Abel, 10.1000/a ' * 300}</note></biblStruct>"
LIST = f"<text><back><div><listBibl>{ENTRY * 3_000}</listBibl></div></back></text>"
TEI = f"<TEI xmlns='{NAMESPACES['']}'>{LIST}</TEI>"

READINGS: Mapping[str, Mapping[str, Any]] = {
    "paper": {"text": LONG, "chunk_tokens": 256, "info": {}},
    "chunks_of_paper": {"text": LONG, "chunk_tokens": 256},
    "chunks": {"body": LONG, "chunk_tokens": 256},
    "tokens": {"text": LONG, "ceiling": 10_000_000},
    "places": {"text": LONG, "quotes": [("Words of another text that ends.", 1)] * 200},
    "sentences": {"text": LONG, "title_hint": "", "count": 6},
    "tei": {"text": TEI},
    "landing_page": {
        "page": base64.b64encode(PAGE + b"<a href=x>" * 300_000).decode(),
        "url": "https://a.org/",
    },
}


def test_every_reading_is_cancelled() -> None:
    assert READINGS.keys() == text_child.FUNCTIONS.keys()


@pytest.mark.parametrize("function", READINGS)
def test_a_cancel_ends_the_reading_of_a_text_at_once(function: str) -> None:
    signal = AbortSignal()
    threading.Timer(0.1, signal.abort, ["cancelled"]).start()
    began = time.monotonic()
    with pytest.raises(Aborted):
        read_in_child(function, TEXT_LIMITS, signal, **READINGS[function])
    assert time.monotonic() - began < 2.5
