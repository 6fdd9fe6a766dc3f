"""What nobody types: every form and every parameter of every page takes it, or says what is wrong with it.

The fields are those that the pages show: a new page or field is covered without being named here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from zlib import crc32

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction
from django.test import Client

from tests.integration.web.admin.every_model import admin_pages, make

pytestmark = [
    pytest.mark.django_db, pytest.mark.usefixtures("static_root"),
    # Of a filter of Django's, for a day that somebody typed without a zone.
    pytest.mark.filterwarnings("ignore:DateTimeField .* received a naive datetime:RuntimeWarning"),
]  # fmt: skip

HOSTILE = (
    "9" * 400, "9" * 5000, "1e999", "-1e-9999", "NaN", "-1", "1" + "," * 300, "x" * 70_000, "a\x00b",
    "\U0001f600\u202e", "[" * 5000, "9999-12-31T23:59:59+14:00", "0001-01-01", "=cmd|' /C calc'!A0",
    "../../etc/passwd", "%00%ff", "http://user:hush-hush@a.org/", "9223372036854775808", "{" * 3000,
    "5 usd/day burst " + "9" * 300, "1" * 300 + " requests/day",
)  # fmt: skip


@dataclass
class Form:
    """A form of a page: where it goes, and the values of its fields."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)


class Forms(HTMLParser):
    """The forms of a page, and the parameters of its links to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.parameters: set[str] = set()
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(given.get("action", ""), given.get("method", "get").lower()))
            self._inside = True
        elif tag in ("input", "select", "textarea") and self._inside and given.get("name"):
            if given.get("type") not in ("checkbox", "radio") or "checked" in given:
                self.forms[-1].fields.setdefault(given["name"], given.get("value", ""))
        elif tag == "a" and given.get("href", "").startswith("?"):
            self.parameters |= {name for name, _ in parse_qsl(given["href"][1:], keep_blank_values=True)}

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "form"


def forms_of(client: Client, address: str) -> Forms:
    return parsed(client.get(address))


def parsed(answer: Any) -> Forms:
    found = Forms()
    found.feed(answer.content.decode())
    return found


def shown(client: Client) -> Iterator[tuple[str, Forms]]:
    made = make()
    for page in admin_pages(made):
        answer: Any = client.get(page.url)
        if answer.status_code == 200 and not answer.streaming and "html" in answer["Content-Type"]:
            yield page.url, parsed(answer)


def hostile_requests(client: Client, some: int, every: int) -> Iterator[tuple[str, str, dict[str, str], str]]:
    """Each `every`-th field of the forms and parameter of the links, with so many of the values, beside what
    the page has: how it is sent, where to, what, and the name of the field."""
    seen = set()
    for url, found in list(shown(client)):
        links = [Form("", "get", {name: ""}) for name in sorted(found.parameters)]
        for form, name in ((each, name) for each in [*found.forms, *links] for name in each.fields):
            to = urlsplit(form.action or url).path or url
            if (form.method, to, name) in seen or "logout" in to:
                continue
            seen.add((form.method, to, name))
            first = crc32(f"{to} {name}".encode())
            for n in range(some if first % every == 0 else 0):
                yield form.method, to, {**form.fields, name: HOSTILE[(first + n) % len(HOSTILE)]}, name


def failures(client: Client, some: int, every: int = 1) -> Iterator[str]:
    for method, to, sent, name in hostile_requests(client, some, every):
        with transaction.atomic():
            answer = getattr(client, method)(to, sent)
            transaction.set_rollback(True)
        if answer.status_code >= 500:
            yield f"{method} {to} {name}={sent[name][:30]!r}"


@pytest.fixture
def client() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(get_user_model().objects.create_superuser("eve"))
    return client


def test_no_form_and_no_parameter_fails_for_what_nobody_types(client: Client) -> None:
    assert list(failures(client, some=1, every=4)) == []


@pytest.mark.slow_proof
def test_no_form_and_no_parameter_fails_for_anything_hostile(client: Client) -> None:
    assert list(failures(client, some=len(HOSTILE))) == []


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("rate", "often", "&#x27;often&#x27; is not understood"),
        ("budget_zone", "Moon", "&#x27;Moon&#x27; is not known"),
        ("allowances", "5 wishes/day", "wishes"),
    ],
)
def test_a_refused_form_shows_the_row_as_it_is(client: Client, field: str, value: str, said: str) -> None:
    row = make()["limit"]
    address = f"/admin/queuemgr/limit/{row.pk}/change/"
    (form,) = (form for form in forms_of(client, address).forms if field in form.fields)
    answer = client.post(address, {**form.fields, field: value})
    assert answer.status_code == 200 and said in answer.content.decode()


def test_an_edit_of_a_policy_whose_kind_is_gone_from_the_code_is_refused_with_the_reason(
    client: Client,
) -> None:
    row = make()["retrypolicy"]
    address = f"/admin/queuemgr/retrypolicy/{row.pk}/change/"
    (form,) = (form for form in forms_of(client, address).forms if "jitter" in form.fields)
    answer = client.post(address, {**form.fields, "jitter": "2"}, follow=True)
    assert "Not saved: no error kind is called &#x27;something&#x27;" in answer.content.decode()
