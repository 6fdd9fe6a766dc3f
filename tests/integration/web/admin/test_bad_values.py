"""Every form of every page, found from the pages themselves, is sent values that no field can hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin

import pytest
from django.contrib.auth import get_user_model
from django.db import transaction
from django.test import Client

from tests.integration.web.admin import every_model
from tests.integration.web.admin.every_model import admin_pages

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]

BAD = (
    "", "-1", "1e9", "nan", "9" * 400, "5/s burst", "burst", "1/0s", "every", "<b>x", "x" * 5_000, "a\x00b",
    "{", "[1]",    "9999-99-99T99:99", "Mars/Phobos", "host:", "*",
)  # fmt: skip
FEW = ("-1", "5/s burst", "<b>x", "9" * 400)
"""What every run of the tests sends; `make proof` sends all, and each to each field alone."""

KEPT = ("csrfmiddlewaretoken", "action", "_selected_action", "act", "verb")


@dataclass
class Form:
    """A form that is posted: its address and the values its fields have."""

    address: str
    values: dict[str, str] = field(default_factory=dict)

    def filled(self) -> list[str]:
        return [name for name in self.values if name not in KEPT]


class Forms(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.page, self.forms, self._open, self._select = page, list[Form](), False, ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._open = given.get("method", "").lower() == "post"
            if self._open:
                self.forms.append(Form(urljoin(self.page, given.get("action") or self.page)))
        elif self._open and given.get("name") and tag in ("input", "textarea", "select"):
            if given.get("type") not in ("submit", "button", "checkbox", "radio"):
                self.forms[-1].values[given["name"]] = given.get("value", "")
            self._select = given["name"] if tag == "select" else ""
        elif self._open and self._select and tag == "option" and "selected" in given:
            self.forms[-1].values[self._select] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "form"


@pytest.fixture
def client() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(get_user_model().objects.create_superuser("eve"))
    return client


def forms_of_all_pages(client: Client) -> list[Form]:
    found: dict[tuple[str, ...], Form] = {}
    made = every_model.make()
    for page in admin_pages(made):
        if "logout" in page.name:
            continue
        answer = client.get(page.url)
        if answer.status_code != 200 or answer.streaming or "html" not in answer["Content-Type"]:
            continue
        reader = Forms(page.url)
        reader.feed(answer.content.decode())
        for form in reader.forms:
            if form.filled() and "logout" not in form.address:
                found[(form.address, *sorted(form.values))] = form
    return list(found.values())


def failures(client: Client, sent: Iterator[tuple[Form, dict[str, str]]]) -> list[str]:
    failed = []
    for form, values in sent:
        with transaction.atomic():
            status = client.post(form.address, {**form.values, **values}).status_code
            transaction.set_rollback(True)
        if status >= 500:
            failed.append(f"{form.address} { ({n: v[:20] for n, v in values.items()}) }: {status}")
    return failed


def everywhere(forms: list[Form], bad: tuple[str, ...]) -> Iterator[tuple[Form, dict[str, str]]]:
    for form in forms:
        for value in bad:
            yield form, dict.fromkeys(form.filled(), value)


def alone(forms: list[Form], bad: tuple[str, ...]) -> Iterator[tuple[Form, dict[str, str]]]:
    for form in forms:
        for name in form.filled():
            yield from ((form, {name: value}) for value in bad)


def test_no_form_fails_for_bad_values_in_all_its_fields(client: Client) -> None:
    forms = forms_of_all_pages(client)
    assert len(forms) > 20
    assert failures(client, everywhere(forms, FEW)) == []


@pytest.mark.slow_proof
def test_no_form_fails_for_a_bad_value_in_any_field(client: Client) -> None:
    assert failures(client, alone(forms_of_all_pages(client), BAD)) == []
