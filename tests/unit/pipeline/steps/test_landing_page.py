"""The PDF is found on a publisher's page, however the tag is written."""

from __future__ import annotations

import pytest

from pipeline.steps.fetch.landing_page import MAX_PAGE, pdf_link, read_landing_page

HERE = "https://pub.example/doi/10.1/x?view=full"


@pytest.mark.parametrize(
    ("head", "link"),
    [
        ('<meta name="citation_pdf_url" content="/a.pdf">', "https://pub.example/a.pdf"),
        ("<meta content='a.pdf' name='citation_pdf_url'>", "https://pub.example/doi/10.1/a.pdf"),
        ("<META CONTENT=/a.pdf NAME=Citation_PDF_URL />", "https://pub.example/a.pdf"),
        ('<meta property="citation_pdf_url" content="//cdn.example/a">', "https://cdn.example/a"),
        (
            '<meta name="citation_pdf_url" content=" https://x.example/?a=1&amp;b=2#page=2 ">',
            "https://x.example/?a=1&b=2",
        ),
        (
            '<base href="/files/"><meta name="citation_pdf_url" content="a.pdf">',
            "https://pub.example/files/a.pdf",
        ),
        (
            '<meta name="citation_pdf_url" content="/1"><meta name="citation_pdf_url" content="/2">',
            "https://pub.example/1",
        ),
        ('<meta name="citation_pdf_url" content="/cut.pdf"', ""),
        ('<!-- <meta name="citation_pdf_url" content="/a.pdf"> -->', ""),
        ('<script>\'<meta name="citation_pdf_url" content="/a.pdf">\'</script>', ""),
        ('<meta name="citation_pdf_url" content="file:///etc/passwd">', ""),
        ('<meta name="citation_pdf_url" content="javascript:alert(1)">', ""),
        ('<meta name="citation_pdf_url" content="http://[bad">', ""),
        ('<meta name="citation_pdf_url">', ""),
        ('<meta name="citation_title" content="/a.pdf">', ""),
        ("", ""),
    ],
)
def test_the_link_is_found_in_any_spelling_and_made_absolute(head: str, link: str) -> None:
    assert pdf_link(f"<!DOCTYPE html><html><head>{head}".encode(), HERE) == link


def test_bytes_of_no_encoding_and_pages_of_any_length_are_read() -> None:
    tag = b'\xff\xfe<meta name="citation_pdf_url" content="/a.pdf">'
    assert pdf_link(tag + b"<" * 3_000_000, HERE) == "https://pub.example/a.pdf"
    assert pdf_link(b" " * MAX_PAGE + tag, HERE) == ""


def tag(name: str, content: str) -> str:
    return f'<meta name="citation_{name}" content="{content}">'


def test_what_a_page_says_of_its_paper_is_read_from_its_tags() -> None:
    head = "".join(map(tag, *zip(
        ("title", "On gates &amp; locks"), ("author", "Lovewater, Ada"), ("author", "Bo Bebel"),
        ("publication_date", "2018/08/30"), ("journal_title", "Journal of Open Gates"), ("volume", "1"),
        ("issue", "3"), ("firstpage", "41"), ("lastpage", "45"), ("doi", "10.5555/gates.13"),
        ("keywords", "gates; slow flow"), ("pdf_url", "/a.pdf"),
        strict=True,
    )))  # fmt: skip
    pdf, stated = read_landing_page(head.encode(), HERE)
    assert pdf == "https://pub.example/a.pdf"
    assert stated == {
        "title": "On gates & locks", "authors": ["Ada Lovewater", "Bo Bebel"], "year": "2018",
        "venue": "Journal of Open Gates", "volume": "1", "issue": "3", "page": "41-45",
        "doi": "10.5555/gates.13", "keywords": ["gates", "slow flow"],
    }  # fmt: skip


def test_tags_are_read_whatever_is_in_them() -> None:
    assert (
        read_landing_page(tag("authors", "A. Abel; B. Bebel").encode(), HERE).stated["authors"][1].strip()
        == "B. Bebel"
    )
    many = read_landing_page((tag("author", "x" * 9_000) * 5_000).encode(), HERE).stated["authors"]
    assert len(many) < 100 and max(map(len, many)) == 4_000
    assert read_landing_page(tag("date", "soon").encode(), HERE).stated == {"year": "soon"}
    assert read_landing_page(b"<meta name=citation_title>", HERE).stated == {"title": ""}
