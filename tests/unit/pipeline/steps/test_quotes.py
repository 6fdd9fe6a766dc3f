"""A quote is found on the page where it stands, however it is printed; what says something else is not."""

# ruff: noqa: RUF001 - typographic signs are what papers print

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.steps.analyse.quotes import LONGEST, PaperText, Place, places

PAPER = """[PAGE 1]
We saved 15.5 litres at −3 °C with an in-
significant effect, ef\ufb01ciently and natu\u0308rlich. “State-of-the-art”
gates don’t leak
[PAGE 2]
at night – or so we thought. The ratio was 1/3 (p<0.05).
灌溉系统在多个闸门同时打开时容易失效。
[PAGE 7]
We saved 15.5 litres a second time.
"""

FOUND = {
    "we  SAVED 15.5 litres\nat -3 °C": 1,
    "an insignificant effect, efﬁciently": 1,
    "an in-significant effect, efficiently": 1,
    "efficiently and natürlich": 1,
    '"state-of-the-art" gates': 1,
    "“State of the art” gates": 1,
    "State‑of‑the‑art gates don't leak": 1,
    "don't leak at night": 1,
    "at night, or so we thought": 2,
    "at night — or so": 2,
    "ratio was 1/3 (p < 0.05)": 2,
    "系统在多个闸门同时": 2,
    "litres a second time": 7,
    "...saved 15.5 litres a second time…": 7,
}


@pytest.mark.parametrize("quote", FOUND)
def test_a_quote_is_found_however_it_is_printed(quote: str) -> None:
    (found,) = places(PAPER, [(quote, FOUND[quote])])
    assert found == Place("verified", FOUND[quote])


@pytest.mark.parametrize(
    "quote",
    [
        "significant effect, efficiently",  # of insignificant
        "5.5 litres at −3 °C",  # of 15.5
        "155 litres at −3 °C",
        "15.5 litres at 3 °C",
        "the ratio was 13 (p<0.05)",
        "the ratio was 1/3 (p>0.05)",
        "the ratio was 1/3 (p<0.0",
        "We lost 15.5 litres at −3 °C",
        "gates do leak at night",
        "art gates don’t leak",  # behind a hyphen
    ],
)
def test_what_says_something_else_is_not_found(quote: str) -> None:
    assert places(PAPER, [(quote, 1)]) == [Place("not found")]


def test_a_quote_of_another_page_is_corrected_to_the_first_that_has_it() -> None:
    said = [("litres a second time", page) for page in (1, 99, None)]
    assert places(PAPER, said) == [Place("corrected", 7)] * 3
    assert places(PAPER, [("We saved 15.5 litres", page) for page in (1, 7, 2)]) == [
        Place("verified", 1), Place("verified", 7), Place("corrected", 1),
    ]  # fmt: skip


def test_a_quote_too_short_to_show_anything_is_said_to_be_so() -> None:
    assert places(PAPER, [("litres", 1), ("灌溉", 2), ("…", 1), ("", None)]) == [
        Place("too short"), Place("too short"), Place("no quote"), Place("no quote"),
    ]  # fmt: skip


def test_a_text_without_marks_has_no_pages() -> None:
    assert places("Water flows downhill.", [("flows downhill", 3)]) == [Place("verified")]


def test_only_the_beginning_of_an_endless_quote_is_looked_for() -> None:
    text = "[PAGE 4]\n" + "water " * 200
    assert places(text, [("water " * 150 + "wine " * 900_000, 4)]) == [Place("verified", 4)]
    assert len("water " * 150) > LONGEST


def test_a_quote_that_stands_within_words_everywhere_is_given_up() -> None:
    assert places("a" * 5_000, [("a" * 400, None)]) == [Place("not found")]


WORDS = st.lists(st.text("abcé5 -.’ﬁ中\n", min_size=1, max_size=9), min_size=8, max_size=30)


@given(st.lists(WORDS, min_size=1, max_size=3), st.data())
def test_every_run_of_words_is_found_on_its_page(pages: list[list[str]], data: st.DataObject) -> None:
    """Whatever the words are made of, if they say enough."""
    texts = [" ".join(words) for words in pages]
    paper = "\n".join(f"[PAGE {number}]\n{text}" for number, text in enumerate(texts, 1))
    page = data.draw(st.integers(1, len(pages)))
    words = texts[page - 1].split()
    first = data.draw(st.integers(0, max(0, len(words) - 1)))
    quote = " ".join(words[first:])
    assert PaperText(paper).place(quote, page).verdict in ("verified", "too short", "no quote")
