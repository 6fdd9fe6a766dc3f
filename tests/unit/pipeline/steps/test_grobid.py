"""What is read out of GROBID's TEI, and what is refused."""

from __future__ import annotations

import pytest

from pipeline.steps.extract.reference import Reference
from pipeline.steps.grobid.tei import references_in, version_in, with_pages
from queuemgr import StepFailed

TEI = (
    '<?xml version="1.0" encoding="UTF-8"?><TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader>{}</teiHeader>'
    "<text><front/><body/><back><div><listBibl>{}</listBibl></div></back></text></TEI>"
)
HEADER = '<encodingDesc><appInfo><application version="0.8.1" ident="GROBID"/></appInfo></encodingDesc>'


def tei(*entries: str, header: str = "") -> bytes:
    return TEI.format(header, "".join(entries)).encode()


def entry(
    family: str = "Abel",
    title: str = "Gates that leak",
    doi: str = "10.5555/a1",
    raw: str = "",
    name: str = "",
) -> str:
    person = name or f"<persName><forename>Ada</forename><surname>{family}</surname></persName>"
    return (
        f'<biblStruct><analytic><title level="a">{title}</title><author>{person}</author>'
        f'<idno type="DOI">{doi}</idno></analytic><monogr><title level="j">J. Water</title><imprint>'
        f'<date type="published" when="2009-05"/></imprint></monogr>'
        f'<note type="raw_reference">{raw}</note></biblStruct>'
    )


BOOK = (
    "<biblStruct><monogr><title level='m'>On Weirs</title><author><orgName>Water Board</orgName></author>"
    "<imprint><publisher>Sluice Press</publisher><date when='1999'/></imprint></monogr></biblStruct>"
)


def test_an_article_and_a_book_are_in_fields() -> None:
    (article, book), version = references_in(tei(entry(raw="A. Abel, Gates that leak."), BOOK, header=HEADER))
    assert (article.authors, article.title, article.venue) == (("Abel, Ada",), "Gates that leak", "J. Water")
    assert (article.year, article.doi, article.text) == (2009, "10.5555/a1", "A. Abel, Gates that leak.")
    assert (book.authors, book.title, book.venue) == (("Water Board",), "On Weirs", "Sluice Press")
    assert (book.number, book.year, version) == (2, 1999, "0.8.1")
    assert article.confidence > 0.9


@pytest.mark.parametrize(
    ("stated", "raw", "doi"),
    [
        ("10.1000/", "", ""),
        ("10.1000/ab-", "", ""),
        ("10.1000/j.", "doi:10.1000/j.water.9", "10.1000/j.water.9"),
        ("https://doi.org/10.1000/AB.9", "", "10.1000/ab.9"),
        ("", "doi:10.1000/x.9", "10.1000/x.9"),
        ("not one", "", ""),
    ],
)
def test_a_doi_that_is_cut_off_is_none(stated: str, raw: str, doi: str) -> None:
    assert references_in(tei(entry(doi=stated, raw=raw)))[0][0].doi == doi


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"<html></html>", tei(BOOK)[:-10], tei(BOOK).decode().encode("utf-16"),
        b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>' + tei(BOOK),
        b" " * 2000 + b'<!DOCTYPE a [<!ENTITY b "bb">]>' + tei(BOOK),
    ],
    ids=["nothing", "json", "html", "truncated", "utf-16", "doctype", "entity"],
)  # fmt: skip
def test_what_is_no_tei_is_refused(body: bytes) -> None:
    with pytest.raises(StepFailed) as refused:
        references_in(body)
    assert refused.value.kind == "bad_answer"


def test_an_entry_has_the_page_where_we_have_read_it() -> None:
    own = [Reference("[7] A. Abel, Gates that leak, J. Water 4.", "", "", 7, page=12)]
    found, _ = references_in(tei(entry(doi="", raw="A. Abel, Gates that leak, J. Water 4."), BOOK))
    assert [each.page for each in with_pages(found, own)] == [12, None]


def test_the_version_is_read_out_of_either_answer() -> None:
    assert [version_in(text) for text in ('{"version":"0.8.2-SNAPSHOT"}', "0.8.1\n", "up")] == [
        "0.8.2-SNAPSHOT", "0.8.1", "",
    ]  # fmt: skip
