"""Splitting a paper by tokens, with a tokenizer that needs no network."""

# ruff: noqa: RUF001 - a Chinese text is punctuated in Chinese

from __future__ import annotations

import base64
import random
import re
import subprocess
import sys
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from semantic_text_splitter import TextSplitter

from pipeline.steps.analyse.chunk_sizes import MIN_NOTE_TOKENS, chunk_tokens_for, known_chunks, requests_for
from pipeline.steps.analyse.chunks import Plan, plan_chunks, without_endless_runs
from pipeline.steps.analyse.split_by_tokens import ESTIMATED_TOKEN, MODEL, tokens_in

ENGLISH = "Gates in rivers hold the water back until somebody opens them again. " * 600
CHINESE = "灌溉系统在多个闸门同时打开时容易失效，本文提出一种计量水流的方法。" * 300
BASE64 = base64.b64encode(random.Random(1).randbytes(30_000)).decode()
WITHOUT_GAPS = "a" * 50_000


TEXTS = {
    "English": ENGLISH,
    "Chinese": CHINESE,
    "base64": BASE64,
    "no gap": WITHOUT_GAPS,
    "emoji": "😀" * 3_000,
    "line ends": "\n" * 9,
    "dear after cheap": ENGLISH + BASE64 + CHINESE + ENGLISH + "😀" * 3_000 + "=" * 50_000 + BASE64,
}


def letters(text: str) -> str:
    return re.sub(r"\s", "", text)


def larger_than(tokens: int, chunks: Iterable[str]) -> list[str]:
    """Those that the library alone would cut."""
    library = TextSplitter.from_tiktoken_model(MODEL, tokens)
    return [chunk for chunk in chunks if len(library.chunks(chunk)) > 1]


@pytest.mark.parametrize("tokens", [300, 2_000])
@pytest.mark.parametrize("what", TEXTS)
def test_the_chunks_hold_all_of_the_paper_and_none_is_larger_than_allowed(what: str, tokens: int) -> None:
    plan = plan_chunks(TEXTS[what], tokens)
    assert letters("".join(plan.chunks)) == letters(TEXTS[what])
    assert larger_than(tokens, plan.chunks) == []


WORDS = st.sampled_from(
    [ENGLISH[:70], CHINESE[:40], BASE64[:300], "\n\n", "\n", " ", ". ", "1 Method\n", "=" * 90]
)


@given(st.text(max_size=3_000) | st.lists(WORDS, max_size=60).map("".join), st.integers(10, 300))
def test_no_text_is_lost_and_no_chunk_too_large_whatever_it_is_made_of(text: str, tokens: int) -> None:
    chunks = plan_chunks(text, tokens).chunks
    assert letters("".join(chunks)) == letters(text)
    assert larger_than(tokens, chunks) == []


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["English", "Chinese"])
def test_about_as_few_chunks_are_made_as_can_be(text: str) -> None:
    """The library fills each as far as it goes."""
    fewest = TextSplitter.from_tiktoken_model(MODEL, 400).chunks(text)
    assert len(fewest) - 1 <= len(plan_chunks(text, 400).chunks) <= 1.2 * len(fewest)


def test_tokens_are_estimated_well_enough() -> None:
    for text in (ENGLISH, CHINESE):
        ratio = tokens_in(text, len(text)) / len(ESTIMATED_TOKEN.findall(text))
        assert 0.6 < ratio < 1.2


def test_a_chunk_ends_with_a_sentence_if_one_ends_near() -> None:
    chunks = plan_chunks(ENGLISH, 500).chunks
    assert len(chunks) > 5 and all(chunk.endswith(".") for chunk in chunks)


def test_a_million_blanks_are_a_gap() -> None:
    """The tokenizer overflows its stack on them."""
    for blank in (" ", "\n", "\u00a0", "\r\n"):
        assert plan_chunks(f"a{blank * 1_000_000}b", 500).chunks[0].split() == ["a", "b"]
    assert len(without_endless_runs("a" + "\t" * 1_000 + "b")) < 100


def test_a_paper_that_fits_is_one_chunk() -> None:
    assert plan_chunks("Short.\n1 Method\nWe count.", 500).chunks[0].split() == (
        ["Short.", "1", "Method", "We", "count."]
    )


def test_a_chunk_ends_before_a_heading_if_possible() -> None:
    section = "We counted every gate on every canal twice and wrote it down.\n" * 12
    body = "".join(f"{n} Canal of the {n}th kind\n{section}" for n in range(1, 9))
    chunks = plan_chunks(body, 400).chunks
    assert len(chunks) > 2
    assert all(re.match(r"\d Canal", chunk) for chunk in chunks)


def test_two_million_characters_are_cut_in_a_few_seconds() -> None:
    assert 10 < len(plan_chunks(ENGLISH * 48, 25_000).chunks) < 40


def test_tokens_are_counted_from_above_within_a_32nd() -> None:
    text = " gate" * 1_000  # a token each
    assert 1_000 <= tokens_in(text, 5_000) <= 1_000 + 5_000 // 32
    assert 20_000 <= tokens_in(20 * text, 50_000) <= 20_000 * 17 // 16


def test_what_is_reserved_is_a_request_a_chunk_one_to_merge_and_a_spare_one() -> None:
    assert [requests_for(chunks) for chunks in (1, 2, 7)] == [2, 4, 9]
    assert [known_chunks(context) for context in ({}, {"llm_chunks": 7})] == [1, 7]


def test_the_room_leaves_space_for_the_answer_at_double_length() -> None:
    assert chunk_tokens_for(32_768, 2_000) * 1.15 + 2 * 2_000 + 600 <= 32_768
    assert chunk_tokens_for(4_096, 2_000) < 0


def test_notes_on_all_chunks_fit_in_one_chunk() -> None:
    plan = Plan("", 3_000, ("chunk",) * 10)
    assert plan.note_tokens * 10 <= plan.chunk_tokens and plan.can_be_merged
    assert not Plan("", MIN_NOTE_TOKENS * 9, ("chunk",) * 10).can_be_merged


def test_the_tokenizer_needs_no_network() -> None:
    """Its vocabulary ships inside the wheel."""
    code = (
        "import socket, sys\n"
        "def refuse(event, args):\n"
        "    if event.startswith('socket.'): raise SystemExit(f'{event} {args}')\n"
        "sys.addaudithook(refuse)\n"
        "from pipeline.steps.analyse.chunks import plan_chunks\n"
        "print(len(plan_chunks('Water flows. ' * 2000, 500).chunks) > 5)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
