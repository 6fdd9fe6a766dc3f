"""Bibliographies read back by the libraries that others read them with."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

import pytest
import rispy  # type: ignore[import-untyped]  # it has no stubs
from bibtexparser.entrypoint import parse_string
from bibtexparser.library import Library
from bibtexparser.middlewares import LatexDecodingMiddleware, NormalizeFieldKeys, SeparateCoAuthors
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pylatexenc.latex2text import LatexNodes2Text, MacroTextSpec, get_default_latex_context_db  # type: ignore[import-untyped]  # it has no stubs

from pipeline.steps.bibliography.bibtex import bibtex, verbatim
from pipeline.steps.bibliography.citation_keys import CitationKeys
from pipeline.steps.bibliography.csl_json import csl_json
from pipeline.steps.bibliography.entry import (
    CATALOGUE_NAMES,
    Entry,
    Name,
    cited_name,
    kind_of,
    name_of,
    of_paper,
    of_reference,
)
from pipeline.steps.bibliography.ocr_corpus import corpus_line
from pipeline.steps.bibliography.ris import ris
from pipeline.steps.metadata.candidates import CATALOGUES, Candidate
from pipeline.steps.metadata.merge import merged
from pipeline.steps.report.report import one_line

KNOWN = get_default_latex_context_db()
KNOWN.add_context_category("signs", prepend=True, macros=[
    MacroTextSpec("textbraceleft", "{"), MacroTextSpec("textbraceright", "}"),
    MacroTextSpec("textasciicircum", "^"),
])  # fmt: skip
AS_LATEX = LatexNodes2Text(latex_context=KNOWN, keep_comments=True)
"""Signs that LaTeX has and the library's decoder lacks, or reads as an accent."""

VERBATIM = ("doi", "url", "eprint")

CSL = Draft202012Validator({
    "type": "object",
    "required": ["id", "type"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "type": {"enum": ["article-journal", "paper-conference", "article", "document"]},
        "author": {"type": "array", "items": {"anyOf": [
            {"required": ["family", "given"], "additionalProperties": False,
             "properties": {"family": {"type": "string"}, "given": {"type": "string"}}},
            {"required": ["literal"], "additionalProperties": False,
             "properties": {"literal": {"type": "string"}}},
        ]}},
        "issued": {"type": "object", "required": ["date-parts"], "properties": {"date-parts": {
            "type": "array", "minItems": 1, "maxItems": 2,
            "items": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "integer"}},
        }}},
        **{name: {"type": "string"} for name in (
            "title", "container-title", "volume", "issue", "page", "publisher", "DOI", "URL", "abstract",
            "keyword", "note", "number", "source",
        )},
    },
})  # fmt: skip
"""What the specification of CSL-JSON says of the fields that we write."""

FULL = Entry(
    key="vandenberg_gates_2021", kind="article", title="Gates and GPUs: the TIMP package, 50% & more",
    authors=(Name("van den Berg", "Jan"), Name("The ATLAS Collaboration"), Name("Ümlaut", "Ño")), year=2021,
    venue="Journal of Gates & Locks", volume="6", issue="2", page="41\u201345", publisher="Open_Gates",
    doi="10.1000/a_b(c)", arxiv_id="2101.00001v2", url="https://doi.org/10.1000/a_b%28c%29",
    abstract="We $show$ that {gates} leak #1.", keywords=("gates", "slow flow"),
    note="As printed -- see p. 3", catalogue="Crossref, OpenAlex",
)  # fmt: skip

INJECTIONS = (
    "}, author = {Mallory", "a}\n@article{evil, title={x}}", "{{{{", "}}}}", "\\", "\\}", "%", "a % b",
    "\\input{/etc/passwd}",
    "x\r\nER  - \r\nTY  - JOUR", "x\nTI  - evil", '"},{"id":"evil"}', "=HYPERLINK(1)",
    "@comment{x}", "$$", "~^_#&",
    "--- '' `` ?` !` << >>", "\0\x1b[31m", "\u202eevil\u2066", "\ud800", "a" * 5_000,
    "\u2028x\x85y", "  ", "and", "a and b",
)  # fmt: skip


def parsed_bibtex(text: str) -> list[Any]:
    library = parse_string(text, append_middleware=[NormalizeFieldKeys()])
    assert library.failed_blocks == [] and library.comments == []
    return library.entries


def texts_of(entry: Any) -> dict[str, str]:
    """The fields as LaTeX prints them; those that programs read verbatim as they are."""
    written = {name: field.value for name, field in entry.fields_dict.items()}
    raw = {name: unquote(written.pop(name)) for name in VERBATIM if name in written}
    library = Library([entry])
    for name in raw:
        entry.pop(name)
    decoded = LatexDecodingMiddleware(decoder=AS_LATEX).transform(library).entries[0]
    return {**{name: field.value for name, field in decoded.fields_dict.items()}, **raw}


def parsed_ris(text: str) -> list[dict[str, Any]]:
    return list(rispy.loads(text))


TEXTS = ("title", "venue", "volume", "issue", "publisher", "abstract", "note")


def check_everywhere(text: str) -> None:
    """A text in every field of an entry comes back from every format, and makes no other entry."""
    line = one_line(text)
    texts: dict[str, Any] = dict.fromkeys(TEXTS, line)
    entry = replace(FULL, **texts, authors=(Name(line or "x", "Given"), Name("Bebel", "B.")))
    (found,) = parsed_bibtex(bibtex(entry) + bibtex(replace(FULL, key="other")))[:1]
    assert found.key == FULL.key
    shown = texts_of(found)
    names = {"venue": "journal", "issue": "number"}
    assert {name: shown.get(names.get(name, name), "") for name in TEXTS} == dict.fromkeys(TEXTS, line)
    first, second = parsed_ris(ris(entry) + ris(FULL))
    assert [first.get(name, "") for name in ("title", "secondary_title", "abstract")] == [line] * 3
    assert first["authors"] == [f"{line or 'x'}, Given", "Bebel, B."] and second["title"] == FULL.title
    item = json.loads(csl_json(entry))
    CSL.validate(item)
    assert [item.get(name, "") for name in ("title", "container-title", "abstract", "note")] == [line] * 4


@pytest.mark.parametrize("text", INJECTIONS)
def test_a_hostile_text_comes_back_as_it_is_from_every_format(text: str) -> None:
    check_everywhere(text)


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.text(max_size=60), st.text(alphabet="{}\\$%&#_~^-'`\"@,=<>?! \nab", max_size=40)))
def test_any_text_comes_back_as_it_is_from_every_format(text: str) -> None:
    check_everywhere(text)


def test_a_paper_has_the_fields_that_zotero_and_jabref_know() -> None:
    (entry,) = parsed_bibtex(bibtex(FULL))
    assert (entry.entry_type, entry.key) == ("article", "vandenberg_gates_2021")
    written = {name: field.value for name, field in entry.fields_dict.items()}
    assert written["author"] == "van den Berg, Jan and {The ATLAS Collaboration} and Ümlaut, Ño"
    assert (
        "{GPUs:}" in written["title"] and "{TIMP}" in written["title"] and r"50\% \& more" in written["title"]
    )
    assert (written["pages"], written["doi"], written["number"]) == ("41--45", "10.1000/a_b(c)", "2")
    assert (written["eprint"], written["archiveprefix"]) == ("2101.00001v2", "arXiv")
    assert SeparateCoAuthors().transform(Library([entry])).entries[0]["author"][2] == "Ümlaut, Ño"
    (record,) = parsed_ris(ris(FULL))
    assert (record["type_of_reference"], record["start_page"], record["end_page"]) == ("JOUR", "41", "45")
    assert (record["doi"], record["year"], record["keywords"]) == (FULL.doi, "2021", ["gates", "slow flow"])
    assert record["database_provider"] == "Crossref, OpenAlex"
    item = json.loads(csl_json(FULL))
    CSL.validate(item)
    assert item["author"][1] == {"literal": "The ATLAS Collaboration"} and item["page"] == "41-45"
    assert item["issued"] == {"date-parts": [[2021]]} and item["source"] == "Crossref, OpenAlex"


@pytest.mark.parametrize(
    "doi",
    ["10.1/a{b}c", "10.1/a\\b", "10.1/50%a", "10.1002/(SICI)1097-0258(19980815)17:15<1661::AID>3.0.CO;2-2"],
)
def test_a_doi_comes_back_whatever_is_in_it(doi: str) -> None:
    (entry,) = parsed_bibtex(bibtex(replace(FULL, doi=doi)))
    assert unquote(entry["doi"]) == doi and "{" not in verbatim(doi)


@pytest.mark.parametrize(
    ("venue", "arxiv_id", "kinds"),
    [
        ("Journal of Gates", "", ("article", "JOUR", "article-journal")),
        ("Proceedings of the 3rd Workshop on Gates", "", ("inproceedings", "CONF", "paper-conference")),
        ("", "2101.00001", ("misc", "UNPB", "article")),
        ("", "", ("misc", "GEN", "document")),
    ],
)
def test_a_kind_of_paper_has_a_type_in_each_format(venue: str, arxiv_id: str, kinds: tuple[str, ...]) -> None:
    entry = replace(FULL, venue=venue, arxiv_id=arxiv_id, kind=kind_of(venue, arxiv_id), publisher="")
    assert parsed_bibtex(bibtex(entry))[0].entry_type == kinds[0]
    assert parsed_ris(ris(entry))[0]["type_of_reference"] == kinds[1]
    assert json.loads(csl_json(entry))["type"] == kinds[2]


def test_keys_are_zoteros_and_none_is_given_twice() -> None:
    keys = CitationKeys()
    made = [keys.key(["Jan van den Berg"], "The Gates of Ångström", 2021) for _ in range(4)]
    assert made == ["vandenberg_gates_2021", *(f"vandenberg_gates_2021-{n}" for n in (2, 3, 4))]
    assert keys.key([], "", None) == "noauthor"
    assert keys.key(["沈若溪"], "小型闸门", 2024) == "noauthor_2024"
    assert keys.key(["}\n@evil{, A"], "\\x{}", None) == "evil_x"


def test_names_of_people_and_groups() -> None:
    assert name_of("Ada Lovelace") == Name("Lovelace", "Ada")
    assert name_of("The ATLAS Collaboration") == Name("The ATLAS Collaboration")
    assert cited_name("Abel, A.") == Name("Abel", "A.")
    assert cited_name("World Health Organization") == Name("World Health Organization")


def test_a_paper_without_an_identifier_has_its_address() -> None:
    fields = merged(
        [Candidate("title", "On gates", "printed", 0.6), Candidate("authors", ["A. Abel"], "printed", 0.6)]
    )
    entry = of_paper("k", fields, "https://example.org/a.pdf")
    assert (entry.url, entry.kind, entry.authors) == (
        "https://example.org/a.pdf",
        "other",
        (Name("Abel", "A."),),
    )


def test_a_reference_that_may_be_divided_wrongly_keeps_its_text() -> None:
    record = {
        "text": "Abel, A. (2001). On gates. J Water, 4.", "authors": ["Abel, A."],
        "title": "On gates", "year": 2001,
        "venue": "J Water", "doi": "10.1000/x", "arxiv_id": "", "confidence": 0.9,
    }  # fmt: skip
    sure, doubtful = of_reference("k", record), of_reference("k", {**record, "confidence": 0.2})
    assert (sure.note, doubtful.note) == ("", record["text"])
    assert (sure.authors, sure.url, sure.year) == ((Name("Abel", "A."),), "https://doi.org/10.1000/x", 2001)
    looked_up = of_reference("k", {**record, "sources": {"title": "crossref", "year": "printed"}})
    assert (looked_up.catalogue, sure.catalogue) == ("Crossref", "")
    assert CATALOGUE_NAMES.keys() == CATALOGUES.keys()
    assert of_reference("k", {"text": "Something", "year": "x", "authors": None}).note == "Something"


def test_spans_of_pages_cut_the_text_into_them() -> None:
    pages = [(1, "One."), (2, ""), (3, "Three\nlines.")]
    record = json.loads(corpus_line("k", pages, "2026-11-30", "2026-11-30", {"title": "T"}))
    spans = record["attributes"]["pdf_page_numbers"]
    cut = [(number, record["text"][start:end].removesuffix("\n")) for start, end, number in spans]
    assert cut == pages
    assert spans[0][0] == 0 and spans[-1][1] == len(record["text"])
    assert all(one[1] == other[0] for one, other in pairwise(spans))
    assert {"id", "text", "source", "added", "created", "metadata", "attributes"} == record.keys()
