"""A document's files are served to users who may view documents, with safe content types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from pipeline.models import Document
from pipeline.web.views import KINDS

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _secret(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not for the web")


@pytest.fixture
def document() -> Document:
    """A finished document whose text imitates a web page."""
    made = {
        field: default_storage.save(f"{kind}/made", ContentFile(f"{kind} {HOSTILE}".encode()))
        for kind, (field, _) in KINDS.items()
    }
    return Document.objects.create(key="doi:10.1/x", kind="doi", source=HOSTILE, **made)


def browser_of(user: User, *codenames: str) -> Client:
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    client = Client()
    client.force_login(user)
    return client


def content(response: Any) -> bytes:
    whole = b"".join(response.streaming_content)
    response.close()
    return whole


def refused(response: HttpResponse) -> bool:
    return response.status_code == 404 and b"not for the web" not in response.content


@pytest.mark.parametrize("kind", KINDS)
def test_an_anonymous_user_is_sent_to_the_login_and_back(
    kind: str, document: Document, client: Client
) -> None:
    address = reverse("artifact", args=[document.pk, kind])
    response = client.get(address)
    assert (response.status_code, response["Location"]) == (302, f"/admin/login/?next={address}")


@pytest.mark.parametrize("staff", [True, False])
def test_a_user_who_may_not_see_documents_sees_none_of_their_files(staff: bool, document: Document) -> None:
    client = browser_of(User.objects.create_user("sam", is_staff=staff), "view_execution")
    assert client.get(reverse("artifact", args=[document.pk, "pdf"])).status_code == 403


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("page", "text/html; charset=utf-8"),
        ("pdf", "application/pdf"),
        ("text", "text/plain; charset=utf-8"),
        ("report", "text/plain; charset=utf-8"),
        ("references", "text/plain; charset=utf-8"),
        ("json", "application/json"),
    ],
)
def test_each_file_has_its_own_content_type_and_may_run_no_scripts(
    kind: str, content_type: str, document: Document, reader: Client
) -> None:
    response = reader.get(reverse("artifact", args=[document.pk, kind]))
    assert (response.status_code, response["Content-Type"]) == (200, content_type)
    assert response["X-Content-Type-Options"] == "nosniff"
    policy = response["Content-Security-Policy"].split("; ")
    assert policy[0] == "sandbox"
    assert (kind == "page") == ("default-src 'none'" in policy)
    assert content(response) == f"{kind} {HOSTILE}".encode()


@pytest.mark.parametrize(
    "kind",
    ["report_markdown", "source", "objects", "__class__", "PDF", "pdf.html", "pdf/", "",
     "../secret", "..%2fsecret", "%2e%2e%2fsecret", "..%5csecret", "pdf%00", "pdf%0a"],
)  # fmt: skip
def test_any_other_kind_is_not_found(kind: str, document: Document, reader: Client) -> None:
    assert refused(reader.get(f"/documents/{document.pk}/{kind}"))


@pytest.mark.parametrize("pk", ["999999", "0", "-1", "1e3", "99999999999999999999999", "x"])
def test_an_unknown_document_is_404(pk: str, reader: Client) -> None:
    assert refused(reader.get(f"/documents/{pk}/pdf"))


def test_a_missing_or_removed_file_is_404(document: Document, reader: Client) -> None:
    default_storage.delete(document.pdf.name)
    Document.objects.update(report_json="")
    for kind in ("pdf", "json"):
        assert refused(reader.get(reverse("artifact", args=[document.pk, kind])))


def test_the_admin_links_to_each_file_there_is_and_shows_hostile_names_as_text(
    document: Document, reader: Client
) -> None:
    Document.objects.update(report_json="", title=HOSTILE)
    for page in (reverse("admin:pipeline_document_changelist"),
                 reverse("admin:pipeline_document_change", args=[document.pk])):  # fmt: skip
        shown = reader.get(page).content.decode()
        assert HOSTILE not in shown
        assert f'href="/documents/{document.pk}/pdf"' in shown
        assert f'href="/documents/{document.pk}/json"' not in shown
