"""Counting references: every style, and common mistakes."""

# ruff: noqa: RUF001 - full-width and typographic signs are what papers print

from __future__ import annotations

import time

import pytest

from pipeline.steps.extract.references import before_references, find_references

BODY = "We follow earlier work (Smith, 2001) and [3], see also [7].\nIn 1999 all was different.\n"


def paper(*entries: str, heading: str = "References", after: str = "") -> str:
    return "\n".join(["[PAGE 1]", "A title", BODY, heading, *entries, after])


def bracketed(count: int, first: int = 1) -> list[str]:
    return [f"[{n}] A. Author. A title. Journal, 2{n:03d}." for n in range(first, first + count)]


APA = [
    "Abel, A., & Baker, B. (2004). On one thing. Journal of Things, 3(2), 480–",
    "490. https://doi.org/10.1000/1",
    "Cole, C. (2010a, May). On another. In Proceedings of Things (pp. 12–15).",
    "Darwin, C. (1859). On the origin of species. Murray.",
    "Evans, E. (n.d.). A page without a year. https://example.org",
]


# ---- styles


@pytest.mark.parametrize(
    ("entries", "style", "count"),
    [
        (bracketed(12), "bracketed", 12),
        ([f"{n}. Author A: Title. J Things 2001, 5:{n}-{n + 9}." for n in range(1, 31)],
         "numbered", 30),
        ([f"({n}) Author, A. Title. J. Things 2001, 5, 7." for n in range(1, 6)],
         "parenthesised", 5),
        ([f"{n} Author A. Title. Things. 2001" for n in range(1, 9)], "plain", 8),
        (["[ABG14] A. Abel. Things. 2014.", "[Co99] C. Cole. More. 1999."], "labelled", 2),
        (
            ["[O'B09] S. O'Brien. Things. 2009.", "[vdB98] J. van den Berg. More. 1998.",
             "[Łuk01a] T. Łukasz. Less. 2001.", "[Yıl84] R. Yılmaz. All. 1984."], "labelled", 4,
        ),
        (["[Abel et al., 2004] Things.", "[Cole, 1999b] More things."], "labelled", 2),
        (APA, "author-year", 4),
        (["Ann Abel and Bo Baker. 2004. On one thing. In Proc. of Things.",
          "Carl Cole. 2010. On another. Journal of Things."], "author-year", 2),
        (["Abel, A., & Baker, B. 2004, ApJ, 600, 12", "Cole, C. 2010, MNRAS, 1, 2"],
         "author-year", 2),
        (["Abel A (2004) On one thing. J Things 3:480", "Cole C (2010) On another. J 4:1"],
         "author-year", 2),
    ],
)  # fmt: skip
def test_each_style_is_counted_and_named(entries: list[str], style: str, count: int) -> None:
    found = find_references(paper(*entries))
    assert (found.count, found.style) == (count, style)


@pytest.mark.parametrize(
    "heading",
    ["References", "REFERENCES", "7. References", "VII. REFERENCES", "R E F E R E N C E S",
     "References and Notes", "Bibliography", "Literature Cited", "Works cited:",
     "参考文献", "參考文獻", "引用文献", "참고문헌", "Literaturverzeichnis", "Références"],
)  # fmt: skip
def test_the_heading_is_known_in_its_variants(heading: str) -> None:
    found = find_references(paper(*APA, heading=heading))
    assert found.count == 4
    assert found.section.startswith("Abel")


def test_full_width_brackets_count_as_brackets() -> None:
    entries = [f"［{n}］ 山田太郎. 題名. 情報処理, 200{n}." for n in range(1, 6)]
    assert find_references(paper(*entries, heading="参考文献")).count == 5


# ---- traps


def test_a_missing_list_differs_from_an_empty_one() -> None:
    found = find_references("[PAGE 1]\nA poster.\nNothing is cited here.")
    assert (found.count, found.style, found.section) == (None, "", "")


def test_the_word_in_a_sentence_is_no_heading() -> None:
    text = "[PAGE 1]\nWe give\nreferences\nto nothing at all.\nThe end comes soon\nand is here."
    assert find_references(text).count is None


def test_the_last_heading_with_entries_behind_it_is_taken() -> None:
    text = "[PAGE 1]\nContents\nReferences\nIntroduction\nText follows here\nand here\n" * 2
    assert find_references(text + paper(*bracketed(9))).count == 9


def test_a_running_head_that_cites_the_paper_is_not_counted() -> None:
    """A footer in the style of an entry would add one reference a page."""
    pages = [
        f"[PAGE {n}]\nVillano et al. (2023). The data. Journal of Open Things, 6(2), {n}.\n{BODY}"
        for n in range(1, 6)
    ]
    assert find_references("\n".join([*pages, "References", *APA])).count == 4


def test_a_heading_repeated_at_the_top_of_each_page_does_not_cut_the_list() -> None:
    pages = [
        "[PAGE 10]\n" + BODY + "References",
        *bracketed(20),
        "[PAGE 11]\nReferences 11",
        *bracketed(20, 21),
        "[PAGE 12]\n12 References",
        *bracketed(20, 41),
    ]
    assert find_references("\n".join(pages)).count == 60


def test_a_physics_paper_needs_no_heading() -> None:
    text = "\n".join(["[PAGE 1]", BODY, "We thank everybody.", *bracketed(25)])
    found = find_references(text)
    assert (found.count, found.style) == (25, "bracketed")


def test_text_after_the_list_of_references_is_not_counted() -> None:
    after = "Appendix A. Proofs\n" + "\n".join(bracketed(9, 13))
    assert find_references(paper(*bracketed(12), after=after)).count == 12


def test_page_ranges_at_a_lines_start_are_no_numbers() -> None:
    """A broken line that starts with `490.` was once counted as 490 references."""
    assert find_references(paper(*APA)).count == 4


def test_a_number_lost_in_a_line_break_does_not_end_the_chain() -> None:
    entries = [entry for entry in bracketed(15) if not entry.startswith(("[6]", "[7]"))]
    assert find_references(paper(*entries)).count == 15


def test_entries_that_cannot_be_separated_are_not_counted_but_kept() -> None:
    found = find_references(paper("1999 was the year", "of 2001 and others", "in 2005 too"))
    assert found.count is None
    assert found.section


def test_hostile_text_is_counted_in_reasonable_time() -> None:
    start = time.monotonic()
    for text in (
        "[" * 200_000,
        "(2004 " * 50_000,
        "a " * 200_000,
        "References\n" * 20_000,
        "[1] x\n" * 50_000,
    ):
        find_references(text)
    assert time.monotonic() - start < 30


def test_the_text_before_the_list_is_what_is_analysed() -> None:
    text = before_references(paper(*bracketed(12)))
    assert "In 1999 all was different." in text
    assert "[1] A. Author" not in text
    assert before_references("no list") == "no list"
