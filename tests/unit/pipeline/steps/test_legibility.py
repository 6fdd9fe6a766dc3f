"""What counts as legible text, and what as garbage from a broken font."""

# ruff: noqa: RUF001 - other scripts and typographic signs are what pages hold

from __future__ import annotations

import pytest

from pipeline.steps.extract.legibility import problem_with, word_share

ENGLISH = "We measured forty gates over nine years; most leak a little (see Fig. 3b), e.g. 4.5 %. "


@pytest.mark.parametrize(
    "text",
    [
        ENGLISH * 5,
        "Größe und Länge der Wehre, naïve façade, État-Unis, l’été où l’on s’en va. " * 5,
        "水闸的看管习惯与池塘水位的振荡，见第三节。" * 20,
        "พนักงานดูแลประตูน้ำเปิดประตูตอนกลางคืน" * 9,
        "وقد قسنا أربعين بوابة على مدى تسع سنوات " * 9,
        "12.5 13.7 -4.2 1,024 3.3% 2001-2004 17:30 " * 9,
        "Aaboud34d, Aad99, Abbott124, Abdallah13a, Abdinov12,∗, Abeloos129 " * 9,
        "Introduction . . . . . . . . . . . . . . . . . . . . . . . . . . 7 \n" * 9,
        "E = mc² ∑ x_i ≤ ∫ f(x) dx where x is the height of the water " * 9,
        "",
        "12",
    ],
    ids=["English", "accents", "Chinese", "Thai", "Arabic", "table", "authors", "contents",
         "formulas", "nothing", "a number"],
)  # fmt: skip
def test_text_is_left_alone(text: str) -> None:
    assert problem_with(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Ä¿Â¼ £¨Ò»£© ¡¡ÖÐ¹ú ÈËÃñ ¹²ºÍ¹ú " * 9,
        "ÈËÃñ ÖÐ¹ú " * 30,
        "a" * 100_000,
        "x9$k 4#&q z}7w p+=3 k;2& " * 20,
    ],
    ids=["Chinese as Latin-1", "the same without signs", "one letter for ever", "ciphers"],
)
def test_illegible_text_is_reported_with_its_reason(text: str) -> None:
    assert problem_with(text) == "few of its words look like words"


@pytest.mark.parametrize("lost", ["\ufffd" * 30, "(cid:71)(cid:72)(cid:15)"])
def test_unknown_characters_make_a_page_illegible(lost: str) -> None:
    assert problem_with(ENGLISH + lost) == "many of its characters are unknown"


def test_one_lost_character_spoils_no_page() -> None:
    assert problem_with(ENGLISH + "\ufffd") == ""


def test_a_short_page_is_not_judged_by_its_words() -> None:
    assert problem_with("x9$k 4#&q z}7w p+=3") == ""


def test_signs_alone_count_neither_way() -> None:
    assert word_share("water . . . . ∑ = gates") == 1.0
