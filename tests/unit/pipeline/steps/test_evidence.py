"""What a model claims is looked up in the paper, and what does not stand there is kept and marked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from semantic_text_splitter import TextSplitter

from pipeline.steps.analyse.analyse import AnalyseOptions, Analysis, KnownLimits, analyse
from pipeline.steps.analyse.chunks import plan_chunks
from pipeline.steps.analyse.marked_text import MARK, marked_before_references
from pipeline.steps.analyse.prompts import MERGE, PROMPT_VERSION, WHOLE, prompt_hash
from pipeline.steps.analyse.split_by_tokens import MODEL
from pipeline.steps.llm.endpoint import Endpoint
from queuemgr.base.errors import StepFailed
from queuemgr.flows.abort_signal import NEVER
from tests.fake_llm import GOOD, FakeLlm, completion, is_merge
from tests.papers import PAPER

pytestmark = pytest.mark.usefixtures("texts_are_read_in_this_process")

TRUE = {"text": "It saves a third.", "page": 2, "quote": "saved a third of the water on every canal"}


@pytest.fixture
def model() -> Iterator[FakeLlm]:
    made = FakeLlm()
    yield made
    made.close()


def run(model: FakeLlm, *answers: object, paper: str = PAPER, **options: Any) -> Analysis:
    for answer in answers:
        model.say(answer)
    endpoint = Endpoint(model.base_url, "m-1", "sk-key", timeout=5)
    return analyse(paper, "", AnalyseOptions(endpoint=endpoint, **options), NEVER).analysis


def seen(analysis: Analysis) -> list[tuple[str, int | None, str, int | None]]:
    return [
        (kind, claim.page, claim.verdict, claim.said_page)
        for kind, claims in analysis.claims()
        for claim in claims
    ]


def test_the_pages_marks_reach_the_model(model: FakeLlm) -> None:
    run(model, GOOD)
    assert "PAPER\n[PAGE 1]\nSluices in Practice" in model.sent(1)
    assert "\n[PAGE 2]\n\n2 Method" in model.sent(1)


def test_each_claim_says_whether_its_quote_stands_where_the_model_says(model: FakeLlm) -> None:
    found = run(
        model,
        {
            **GOOD,
            "contributions": ["A counting sluice."],
            "methods": [{**TRUE, "page": 1}],
            "data": [{**TRUE, "page": None}, {**TRUE, "page": "p. 2"}],
            "results": [TRUE, {**TRUE, "quote": "saved half of the water on every canal"}],
            "limitations": [{**TRUE, "quote": "water"}],
        },
    )
    assert len(model.requests) == 1
    assert seen(found) == [
        ("contributions", None, "no quote", None),
        ("methods", 2, "corrected", 1),
        ("data", 2, "corrected", None),
        ("data", 2, "verified", None),
        ("results", 2, "verified", None),
        ("results", 2, "not found", None),
        ("limitations", 2, "too short", None),
    ]
    assert found.results[1].text == TRUE["text"], "kept"


def test_a_model_cannot_vouch_for_itself(model: FakeLlm) -> None:
    vouched = {**TRUE, "quote": "never written at all", "verdict": "verified", "said_page": 7}
    found = run(model, {**GOOD, "results": [vouched], "anomalies": ["none"]})
    assert seen(found)[-1] == ("results", 2, "not found", None)
    assert found.anomalies == ()


JUNK: dict[str, tuple[Any, int, str]] = {
    "a text instead of a list": ("It saves a third.", 1, "no list"),
    "an object instead of a list": (TRUE, 1, "no list"),
    "a million claims": ([TRUE] * 30 + [{"text": "t"}] * 100_000, 30, "left out"),
    "nested lists": ([[[[TRUE]]], TRUE], 1, "1 of 2 entries left out"),
    "a text that is none": ([{**TRUE, "text": {"a": []}}, TRUE], 1, "1 of 2 entries left out"),
    "an endless text": ([{**TRUE, "text": "a" * 9_000}], 0, "1 of 1 entries left out"),
    "numbers": ([1, 2.5, None, True], 0, "4 of 4 entries left out"),
    "a number": (7, 0, "no list"),
}


@pytest.mark.parametrize("junk", JUNK)
def test_a_wrong_list_is_sent_back_once_and_then_what_is_right_in_it_is_kept(
    model: FakeLlm, junk: str
) -> None:
    value, kept, anomaly = JUNK[junk]
    found = run(model, {**GOOD, "results": value}, {**GOOD, "results": value})
    assert len(model.requests) == 2 and "results" in model.sent(2)
    assert len(found.results) == kept
    assert all(claim.verdict in ("verified", "no quote") for claim in found.results)
    (said,) = found.anomalies
    assert said.startswith("results: ") and anomaly in said


def test_a_list_that_the_second_answer_mends_is_no_anomaly(model: FakeLlm) -> None:
    found = run(model, {**GOOD, "results": "It saves."}, {**GOOD, "results": [TRUE]})
    assert (seen(found)[-1][2], found.anomalies) == ("verified", ())


@pytest.mark.parametrize("page", [True, -1, 0, 1e400, 10**4_000, "9" * 5_000, "none", [2], {"page": 2}])
def test_a_page_that_is_none_is_no_fault(model: FakeLlm, page: object) -> None:
    """The quote says where it stands."""
    found = run(model, json.dumps({**GOOD, "results": [{**TRUE, "page": page}]}))
    assert (found.results[0].page, found.results[0].verdict, len(model.requests)) == (2, "corrected", 1)


@pytest.mark.parametrize("quote", [None, 7, ["saved a third"], {"a": "b"}, "a" * 100_000, "\x00\ud800"])
def test_a_quote_that_is_none_leaves_its_claim_unverified(model: FakeLlm, quote: object) -> None:
    found = run(model, {**GOOD, "results": [{**TRUE, "quote": quote}]})
    assert not found.results[0].is_verified and found.results[0].page == 2


def test_an_answer_without_a_summary_fails_whatever_its_claims_are(model: FakeLlm) -> None:
    with pytest.raises(StepFailed) as failed:
        run(model, *[{**GOOD, "summary": "", "results": [TRUE]}] * 2)
    assert failed.value.kind == "bad_answer"


# ---- papers in parts

NAMES = [f"{first}{last}" for first in "ABCDEFGH" for last in ("nn", "el", "dam", "bert", "lia")]
LONG = "".join(
    f"[PAGE {n}]\n"
    + "".join(f"Gate {n} held water back until {m}{chr(96 + n)} came to open it.\n" for m in NAMES)
    for n in range(1, 13)
)


@pytest.mark.parametrize("tokens", [256, 300, 700])
def test_each_chunk_begins_with_the_mark_of_its_page_and_none_is_too_large(tokens: int) -> None:
    chunks = plan_chunks(marked_before_references(LONG), tokens).chunks
    assert all(MARK.match(chunk) for chunk in chunks)
    library = TextSplitter.from_tiktoken_model(MODEL, tokens)
    assert all(len(library.chunks(chunk)) == 1 for chunk in chunks)
    for chunk in chunks:
        marked = MARK.split(chunk)[1:]
        for mark, text in zip(MARK.findall(chunk), marked, strict=True):
            number = mark.removeprefix("[PAGE ").removesuffix("]")
            assert set(re.findall(r"Gate (\d+)", text)) <= {number}


def test_a_text_of_marks_alone_is_not_cut_within_one() -> None:
    text = "".join(f"[PAGE {n}]\n" for n in range(1, 3_000)) + "end"
    chunks = plan_chunks(text, 300).chunks
    assert len(chunks) > 3 and all(MARK.sub("", chunk).split() in ([], ["end"]) for chunk in chunks)


def test_claims_of_a_paper_in_parts_keep_their_evidence(model: FakeLlm) -> None:
    """Parts are asked for pages and quotes with what they note, and the whole paper is searched for them."""
    quote = "Gate 11 held water back until Bbertk came"
    evidence = [{"text": "It held.", "page": 11, "quote": quote}, {"text": "So.", "page": 3, "quote": quote}]

    def reply(request: dict[str, Any]) -> Any:
        if is_merge(request):
            return completion({**GOOD, "results": evidence})
        return completion(f'It held (page 11: "{quote}").')

    model.reply = reply
    small = {"context_tokens": 4_100, "max_tokens": 200, "known": KnownLimits(9)}
    found = run(model, paper=LONG, **small)
    parts = [model.sent(number) for number in range(1, len(model.requests))]  # asked at once, in any order
    assert any("[PAGE 1]" in part and "page 3:" in part for part in parts)
    assert f'(page 11: "{quote}")' in model.sent(len(model.requests))
    assert seen(found)[1:] == [("results", 11, "verified", None), ("results", 11, "corrected", 3)]


# ---- prompts


def test_a_changed_prompt_has_another_version() -> None:
    """Both are stored with each analysis: change the version and this hash together."""
    assert (PROMPT_VERSION, prompt_hash()[:12]) == ("2026-12-1", "4595aebf4fd2")
    assert "[PAGE n]" in WHOLE and "unchanged" in MERGE
