"""The PDF is found on a publisher's page, however the tag is written."""

from __future__ import annotations

import pytest

from pipeline.steps.fetch.landing_page import MAX_PAGE, pdf_link

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
