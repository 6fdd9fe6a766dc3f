"""A page of a paper beside the text that was read of it; its picture is drawn when it is asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.test import Client

from pipeline.models import Document
from pipeline.web import page_view
from tests import pdf_builder

pytestmark = pytest.mark.django_db

HOSTILE = "</pre><script>alert(1)</script>\u202e"

PAGES = [
    {"number": 1, "text": f"On gates\n{HOSTILE}", "source": "ocr", "reason": "it has no text layer"},
    {"number": 2, "text": "", "source": "blank", "reason": ""},
]


def paper(pdf: bytes, **columns: Any) -> Document:
    made = Document(key="k", kind="file", title=HOSTILE, pages=2, sha256="ab" * 32, **columns)
    made.pdf.save("pdf/k.pdf", ContentFile(pdf), save=False)
    lines = "".join(json.dumps(page) + "\n" for page in PAGES)
    made.pages_file.save("pages/k.jsonl", ContentFile(lines.encode()), save=False)
    made.save()
    return made


@pytest.fixture
def document() -> Document:
    claims = [
        {"text": "It opens.", "quote": "On gates", "verdict": "verified", "page": 1},
        {"text": "It shuts.", "quote": "x", "verdict": "not found", "page": 1},
    ]
    pdf = pdf_builder.document([pdf_builder.text_content(*["On gates that open"] * 20)] * 2)
    return paper(pdf, analysis={"results": claims})


def test_a_page_shows_its_picture_beside_its_text_and_how_it_was_read(
    document: Document, reader: Client
) -> None:
    response = reader.get(f"/documents/{document.pk}/pages/1")
    shown = response.content.decode()
    assert f'<img src="/documents/{document.pk}/pages/1.jpg" alt="Page 1 as printed">' in shown
    assert "read by OCR: it has no text layer" in shown and '<pre dir="auto">On gates\n&lt;/pre&gt;' in shown
    assert "Page 1 of 2" in shown and f'href="/documents/{document.pk}/pages/2" rel="next"' in shown
    assert "It opens." in shown and "It shuts." not in shown, "what was found on it"
    assert "<script" not in shown and "\u202e" not in shown
    policy = response["Content-Security-Policy"]
    assert "img-src 'self'" in policy and "script-src" not in policy
    blank = reader.get(f"/documents/{document.pk}/pages/2").content.decode()
    assert "<img" not in blank and 'rel="prev"' in blank and 'rel="next"' not in blank


def test_a_picture_is_drawn_and_kept_by_the_browser(document: Document, reader: Client) -> None:
    address = f"/documents/{document.pk}/pages/1.jpg"
    picture = reader.get(address)
    assert (picture.status_code, picture["Content-Type"]) == (200, "image/jpeg")
    assert picture.content.startswith(b"\xff\xd8") and picture["Cache-Control"].startswith("private")
    assert reader.get(address, headers={"If-None-Match": picture["ETag"]}).status_code == 304


def test_who_may_not_view_documents_sees_no_page(document: Document) -> None:
    client, ends = Client(), ("1", "1.jpg")
    assert {client.get(f"/documents/{document.pk}/pages/{end}").status_code for end in ends} == {302}
    client.force_login(User.objects.create_user("nobody", is_staff=True))
    assert {client.get(f"/documents/{document.pk}/pages/{end}").status_code for end in ends} == {403}


@pytest.mark.parametrize(
    "end", ["0", "3", "-1", "1e1", "99999999999999999999", "../pdf", "..%2f..%2fsecret", "1.png", "1%00", "x"]
)
def test_any_other_page_is_not_found(end: str, document: Document, reader: Client) -> None:
    for address in (f"/documents/{document.pk}/pages/{end}", f"/documents/{document.pk}/pages/{end}.jpg"):
        assert reader.get(address).status_code == 404
    assert reader.get("/documents/99999999999999999999/pages/1").status_code == 404


def test_a_pdf_that_cannot_be_opened_is_no_error_of_ours(reader: Client) -> None:
    document = paper(b"%PDF-1.7 nothing")
    response = reader.get(f"/documents/{document.pk}/pages/1.jpg")
    assert response.status_code == 503 and b"damaged" in response.content
    assert reader.get(f"/documents/{document.pk}/pages/1").status_code == 200, "its text is there"


def test_a_page_that_is_not_drawn_in_time_is_given_up(
    reader: Client, set_settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_settings(page_seconds=0.2)
    document = paper(pdf_builder.slow_to_draw(1, 3_000_000))
    assert reader.get(f"/documents/{document.pk}/pages/1.jpg").status_code in (404, 503)


def test_few_pages_are_drawn_at_a_time(
    document: Document, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_view, "WAIT_SECONDS", 0.01)
    for _ in range(page_view.AT_ONCE):
        assert page_view._places.acquire(blocking=False)
    try:
        response = reader.get(f"/documents/{document.pk}/pages/1.jpg")
    finally:
        for _ in range(page_view.AT_ONCE):
            page_view._places.release()
    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert reader.get(f"/documents/{document.pk}/pages/1.jpg").status_code == 200
