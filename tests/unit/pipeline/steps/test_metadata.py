"""What a paper says of itself, and which of several statements counts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from pipeline.steps.metadata.candidates import (
    FIELDS,
    Candidate,
    candidate,
    of_catalogue,
    read_stored,
    with_news,
)
from pipeline.steps.metadata.merge import columns, merged, split_name
from pipeline.steps.metadata.of_paper import of_paper
from pipeline.steps.metadata.xmp import xmp_entries
from pipeline.steps.resolve.sources.answer import Paper

TITLE = "Teaching Gates to Open Slowly: A Course in Hydraulic Patience for Keepers of Small Sluices"
TITLES = {
    1: [TITLE],
    2: ["Teaching Gates to Open Slowly: A Course in Hydraulic", "Patience for Keepers of Small Sluices"],
    3: ["Teaching Gates to Open", "Slowly: A Course in Hydraulic Patience for", "Keepers of Small Sluices"],
}
AUTHORS = ["Ada B. Lovewater", "Jan van den Berg", "Ño Ümlaut"]
BYLINES = {
    "marks": [
        "Ada B. Lovewater1, Jan van den Berg†1,2, and Ño",
        "Ümlaut2",
        "1 Department of Gates, University",
    ],
    "spaced marks": ["Ada B. Lovewater 1, Jan van den Berg 2, Ño Ümlaut 1", "1 School of Rivers 2 Institute"],
    "marks on lines of their own": [
        "Ada B. Lovewater",
        "1",
        ", Jan van den Berg",
        "2",
        ", Ño Ümlaut",
        "1,*",
        "1",
        "Institute of Rivers",
    ],
    "commas before": ["Ada B. Lovewater1", ", Jan van den Berg1", ", and Ño Ümlaut1", "1", "ICTEAM, Rivers"],
    "a line each": ["Ada B. Lovewater", "Jan van den Berg", "Ño Ümlaut", "University of Rivers"],
}
DOIS = {
    "on a line": ["DOI: 10.21105/jose.00013"],
    "as an address": ["https://doi.org/10.21105/jose.00013"],
    "broken": ["Citation: https://doi.org/10.21105/", "jose.00013"],
    "behind text": ["Ann Arbor, MI USADOI: 10.21105/jose.00013", "Software"],
}
EMBEDDED = {
    "right": TITLE,
    "the file": "paper_final_v3.docx",
    "a template": "Untitled",
    "none": "",
    "another": "Rivers",
}
BODY = [
    "Submitted: 08 May 2017",
    "Published: 30 August 2018",
    "Summary",
    "This course teaches. See (Abel, 1999).",
]


def paper(*front: str, pages: int = 2) -> str:
    rest = "".join(f"\n[PAGE {n}]\nThe gate of page {n} was opened again.\n" for n in range(2, pages + 1))
    return "[PAGE 1]\n" + "\n".join(front) + rest


def fields(text: str, **info: str) -> dict[str, Any]:
    stated = of_paper(text, info)
    made = (candidate(field, value, source, c) for source, each in stated.items() for field, value, c in each)
    return columns(merged(c for c in made if c))


@pytest.mark.parametrize(("lines", "byline", "doi"), tuple(product(TITLES, BYLINES, DOIS)))
def test_title_authors_year_and_doi_are_read_from_the_first_page(lines: int, byline: str, doi: str) -> None:
    text = paper(*TITLES[lines], *BYLINES[byline], *DOIS[doi], *BODY)
    for embedded in EMBEDDED.values():
        found = fields(text, title=embedded)
        assert (found["title"], found["doi"], found["year"]) == (TITLE, "10.21105/jose.00013", 2018), embedded
        assert found["authors"] == AUTHORS


@pytest.mark.parametrize(
    "above",
    [
        "Research Article", "Submitted to: Journal of Gates",
        "EUROPEAN ORGANISATION FOR GATES (EOG)", "Open Access",
        "Proceedings of the Third Workshop", "Preprint, under review", "Water Letters 6 (2018), 41\u201345",
    ],
)  # fmt: skip
def test_what_stands_above_a_title_is_no_title(above: str) -> None:
    for lines in TITLES.values():
        assert fields(paper(above, *lines, *BYLINES["marks"], *BODY))["title"] == TITLE


def test_a_doi_that_the_paper_cites_is_not_its_own() -> None:
    cited = "We extend earlier work (Abel, 2001, 10.1000/182) on gates."
    assert "doi" not in fields(paper(TITLE, *BODY, cited))
    own = fields(paper(TITLE, *DOIS["on a line"], *BODY, cited, "See https://doi.org/10.1000/183."))
    assert own["doi"] == "10.21105/jose.00013"
    listed = paper(TITLE, "References", "Abel, A. (2001). On gates. J Water, 4, 5. doi:10.1000/182",
                   "Bebel, B. (2002). On leaks. J Water, 4, 9. doi:10.1000/183")  # fmt: skip
    assert "doi" not in fields(listed)


def test_a_footer_cites_the_paper_itself() -> None:
    footer = f"Lovewater et al., (2018). {TITLE}. Journal of Open Gates, 1(3), 13. https://doi.org/10.21105/jose.00013"
    text = paper(*TITLES[2], *DOIS["on a line"], *BODY, footer)
    stated = {field: value for field, value, _ in of_paper(text, {})["printed"]}
    assert (stated["venue"], stated["volume"], stated["issue"]) == ("Journal of Open Gates", "1", "3")
    assert stated["page"] == "13"


def test_the_stamp_of_arxiv_names_the_paper() -> None:
    for stamp in ("arXiv:2101.00001v3  [cs.DC]  2 Jan 2021", "arXiv:hep-ex/0509008v1 [hep-ex] 5 Sep 2005"):
        found = fields(paper(TITLE, "We use arXiv:1901.00002 throughout.", stamp))
        assert found["arxiv_id"] == stamp.split(":")[1].split()[0]
        assert str(found["year"]) == stamp[-4:]


def test_abstract_and_keywords_are_those_printed() -> None:
    text = paper(
        TITLE,
        "Abstract",
        "Gates leak at night.",
        "Keywords: gates, slow flow, compart-",
        "ments",
        "1 Introduction",
    )
    found = fields(text, keywords="from, a, template")
    assert found["abstract"] == "Gates leak at night."
    assert found["keywords"] == ["gates", "slow flow", "compartments"]


def test_a_title_of_a_scan_is_the_embedded_one_unless_a_program_wrote_it() -> None:
    assert fields("[PAGE 1]\n", title=TITLE)["title"] == TITLE
    for written in (
        "Microsoft Word - a.doc",
        "scan0001",
        "untitled",
        "main.dvi",
        "IMG_2034",
        "\0",
        "Adobe Photoshop PDF",
    ):
        assert "title" not in fields("[PAGE 1]\n", title=written), written


def test_xmp_is_read_without_its_entities() -> None:
    xmp = (
        '<!DOCTYPE x [<!ENTITY a "aaaa">]><x:xmpmeta><dc:title><rdf:Alt><rdf:li xml:lang="x-default">On &amp;'
        " off</rdf:li></rdf:Alt></dc:title>"
        "<dc:creator><rdf:Seq><rdf:li>A. Abel</rdf:li><rdf:li>B. Bebel &a;</rdf:li>"
        "</rdf:Seq></dc:creator><prism:doi>10.1/x</prism:doi><rdf:Description prism:publicationName='x'/>"
    )
    found = xmp_entries(xmp)
    assert found == {"title": "On & off", "author": "A. Abel; B. Bebel &a;", "doi": "10.1/x"}
    assert xmp_entries("<dc:title><rdf:li>never closed") == {}


# Merging


def test_the_most_certain_value_is_chosen_and_what_differs_is_kept() -> None:
    stated = [
        Candidate("title", "On Gates", "printed", 0.6), Candidate("title", "On gates.", "crossref", 0.96),
        Candidate("title", "Untidy", "embedded", 0.3), Candidate("year", 2018, "printed", 0.78),
        Candidate("authors", ["A. Abel", "Bebel, Bo"], "printed", 0.6),
        Candidate("authors", ["Anna Abel", "Bo Bebel"], "crossref", 0.96),
    ]  # fmt: skip
    found = merged(reversed(stated))
    assert (found["title"].chosen.value, found["title"].chosen.source) == ("On gates.", "crossref")
    assert [other.source for other in found["title"].conflicts] == ["embedded"]
    assert found["authors"].conflicts == () and len(found["authors"].others) == 1
    assert merged(stated) == found


def test_a_source_that_is_read_again_replaces_what_it_stated() -> None:
    first = with_news([], ["printed"], [Candidate("title", "Old", "printed", 0.6)])
    first = with_news(
        read_stored(first), ["crossref"], of_catalogue("crossref", Paper("T", ("A. Abel",), 2001))
    )
    again = list(read_stored(with_news(read_stored(first), ["printed"], [])))
    assert {each.source for each in again} == {"crossref"}
    assert merged(again)["authors"].chosen.value == ["A. Abel"]


HOSTILE: tuple[Callable[[], Any], ...] = (
    lambda: "x" * 1_000_000, lambda: "\0\x1b[31m\u202e\ud800 gates\n\n", lambda: ["y" * 10_000] * 10_000,
    lambda: {"a": 1}, lambda: None,
    lambda: True, lambda: 10**30, lambda: float("nan"), lambda: [None, 1, "B"],
)  # fmt: skip


@pytest.mark.parametrize("made", HOSTILE)
@pytest.mark.parametrize("field", FIELDS)
def test_every_value_is_bounded_and_fits_a_database(field: str, made: Callable[[], Any]) -> None:
    found = candidate(field, made(), "printed", 0.5)
    if found is None:
        return
    values = found.value if isinstance(found.value, list) else [found.value]
    assert len(values) <= 500
    for value in map(str, values):
        assert len(value) <= 4_000 and "\0" not in value and "\n" not in value
        value.encode()
    assert list(read_stored([found.to_json()])) == [found]


@pytest.mark.parametrize(
    "stored", [None, "x", {}, [1], [{"field": "x"}], [{"field": "title"}], [{"field": []}]]
)
def test_metadata_of_another_form_is_left_out(stored: Any) -> None:
    assert list(read_stored(stored)) == []


def test_names_are_split_as_bibtex_splits_them() -> None:
    for given, family, rest in (
        ("Ada Lovelace", "Lovelace", "Ada"), ("Jan van den Berg", "van den Berg", "Jan"),
        ("Plato", "Plato", ""),
        ("van den Berg, Jan", "van den Berg", "Jan"), ("Martin Luther King Jr.", "King", "Martin Luther Jr."),
        ("沈若溪", "沈若溪", ""),
    ):  # fmt: skip
        assert split_name(given) == (family, rest)
