"""Separating the entries of a list: each entry's text, and what happens if it cannot be done."""

# ruff: noqa: RUF001 - typographic quotes are what papers print

from __future__ import annotations

import pytest

from pipeline.steps.extract.reference_entries import entries_of
from pipeline.steps.extract.references import find_references

APA = [
    "Abel, A., & Baker, B. (2004). On one thing. Journal of Things, 3(2), 480–",
    "490. https://doi.org/10.1000/1",
    "Cole, C. (2010a, May). On another. In Proceedings of Things (pp. 12–15).",
    "Microsoft Open Things, McFarland, M., Emanuele, R., & Augspurger, T.",
    "(2022). A program. Zenodo. https://doi.org/10.",
    "5281/zenodo.7261897",
    "Lowland Weir Society. (2017). Guide to the village sluices.",
]

JSS = [
    "Bates DM, DebRoy S (2003). “Converting a Package to S4 Classes.”",
    "In K Hornik, F Leisch (eds.), “Proceedings of the 3rd Workshop on",
    "Distributed Computing, Vienna, Austria,” URL http://www.example.org/.",
    "Chambers JM (1998). Programming with Data. Springer-Verlag,",
    "New York.",
    "van Stokkum IHM, Lozier RH (2002). “Target Analysis of the Photo-",
    "cycle.” Journal of Physical Chemistry B, 106(13), 3477–3485.",
]

ACL = [
    "Ann Abel and Bo Baker. 2004. On one thing. In Proc.",
    "of the Things, pages 1–9.",
    "Carl D. Cole. 2010. On another. Journal of Things.",
]


def starts(section: list[str]) -> list[str]:
    return [entry.text.split()[0] for entry in entries_of(section).entries]


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (APA, ["Abel,", "Cole,", "Microsoft", "Lowland"]),
        (JSS, ["Bates", "Chambers", "van"]),
        (ACL, ["Ann", "Carl"]),
        (["[ABG14] A. Abel. Things.", "On and on. 2014.", "[Co99] C. Cole. More. 1999."],
         ["[ABG14]", "[Co99]"]),
        (["1. Abel A: Things. J Things", "2001, 5:1-9.", "2. Cole C: More. J 2002, 1:2."],
         ["1.", "2."]),
        (["(1) Abel, A. Things 2001.", "(2) Cole, C. More 2002."], ["(1)", "(2)"]),
        (["［1］ 山田太郎. 題名. 2001.", "［2］ 鈴木花子. 続. 2002."], ["［1］山田太郎.", "［2］鈴木花子."]),
    ],
    ids=["APA", "JSS", "ACL", "labels", "numbers", "parentheses", "full width"],
)  # fmt: skip
def test_each_style_is_split_where_its_entries_start(section: list[str], expected: list[str]) -> None:
    assert starts(section) == expected


def test_an_entry_is_one_line_of_text_with_its_words_made_whole() -> None:
    entries = entries_of(JSS).entries
    assert entries[2].text == (
        "van Stokkum IHM, Lozier RH (2002). “Target Analysis of the Photocycle.” "
        "Journal of Physical Chemistry B, 106(13), 3477–3485."
    )


def test_each_entry_keeps_its_doi_and_arxiv_id() -> None:
    section = [
        "[1] A. Abel, Things, JHEP 11 (2020) 143,",
        "doi:10.1007/JHEP11(2020)143, arXiv: 2007.13313 [hep-ph].",
        "[2] C. Cole, More, 1999.",
    ]
    first, second = entries_of(section).entries
    assert (first.doi, first.arxiv_id) == ("10.1007/JHEP11(2020)143", "2007.13313")
    assert (second.doi, second.arxiv_id) == ("", "")


def test_text_after_the_last_entry_is_not_part_of_it() -> None:
    section = ["[1] A. Abel. Things.", "J. Things, 2001.", "[2] C. Cole. More. 2002.",
               "Submit your manuscript here and find out more", "All rights reserved."]  # fmt: skip
    assert entries_of(section).entries[-1].text == "[2] C. Cole. More. 2002."


def test_an_appendix_that_cites_adds_no_entry() -> None:
    """Mullen and van Stokkum 2007 (JSS) has 17 references and an appendix that repeats some."""
    appendix = ["The memory that this algorithm needs grows with the data"] * 40
    appendix.append("as is described in Cole (2010). It continues.")
    assert entries_of(APA + appendix).count == 4


def test_entries_whose_number_is_lost_are_counted_and_their_absence_is_seen() -> None:
    section = [f"[{n}] A. Author. A title. Journal, 2001." for n in (1, 2, 3, 5, 6)]
    found = entries_of(section)
    assert (found.count, [entry.number for entry in found.entries]) == (6, [1, 2, 3, 5, 6])


def test_a_head_of_left_pages_only_is_no_part_of_an_entry() -> None:
    """Too few pages to be on 40 % and three of them."""
    pages = [f"[PAGE {n}]\nNight openings and drift\nText of page {n}." for n in (1, 3)]
    text = "\n".join([*pages, "[PAGE 5]", "References", *APA[:2], "[PAGE 6]",
                      "Night openings and drift", *APA[2:]])  # fmt: skip
    found = find_references(text)
    assert found.count == 4
    assert "Night" not in found.section


def test_the_end_of_a_doi_is_not_taken_for_a_page_number() -> None:
    text = "\n".join(["[PAGE 1]", "References", *APA, "Yu, G. (2017). Trees. doi:10.1111/2041-210X.",
                      "12628", "7"])  # fmt: skip
    last = find_references(text).entries[-1]
    assert (last.doi, last.text[-5:]) == ("10.1111/2041-210X.12628", "12628")


def test_no_list_has_no_entries() -> None:
    assert find_references("[PAGE 1]\nA poster.").entries == ()
    assert entries_of(["1999 was the year", "of 2001 and others"]).entries == ()
