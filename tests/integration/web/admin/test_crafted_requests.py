"""Requests nobody makes by clicking: every page answers hostile ids, filters and dates; none fails."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import cycle, product
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth import get_user_model
from django.contrib.messages.storage.cookie import CookieStorage
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import transaction
from django.http import Http404, QueryDict
from django.test import Client, RequestFactory
from django.urls import reverse

from tests.integration.web.admin.every_model import admin_pages, make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]

HOSTILE = ("-1", "9223372036854775808", "9" * 400, "x", "a\x00b", "9999-12-31", "0001-01-01", "_00")
NUL = "\x00"
IDS = ("-1", "9223372036854775808", "9" * 400, "x", "a\x00b")
"""The first misses; of the others every third is tried, the largest and one that no column holds."""
ENDINGS = ("", "__gte", "__isnull")
LIST_PARAMETERS = ("q", "p", "o", "all", "e", "_to_field", "_popup", "_changelist_filters", "_facets")
ANSWERS = (IncorrectLookupParameters, PermissionDenied, SuspiciousOperation, Http404)
"""What Django turns into a page or a redirect of its own."""


def models() -> list[Any]:
    import_module(settings.ROOT_URLCONF)
    return sorted(admin.site._registry, key=lambda model: str(model._meta.label))


@pytest.fixture
def client() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(get_user_model().objects.create_superuser("eve"))
    return client


def test_no_page_of_the_admin_fails_for_a_hostile_id(client: Client) -> None:
    made = make()
    ids = {str(row.pk) for row in made.values()}
    paths = sorted({page.url for page in admin_pages(made)})
    failed = [
        address
        for address in _with_hostile_ids(paths, ids)
        if client.get(address).status_code >= 500 or client.post(address).status_code >= 500
    ]
    assert failed == []


def _with_hostile_ids(paths: list[str], ids: set[str]) -> Iterator[str]:
    for path, value in product(paths, IDS[1::3]):
        parts = path.split("/")
        for n, part in enumerate(parts):
            if part in ids:
                yield "/".join([*parts[:n], quote(value.encode("utf-8", "surrogatepass")), *parts[n + 1 :]])


def test_no_list_of_the_admin_fails_for_a_hostile_filter(client: Client, rf: RequestFactory) -> None:
    make()
    user, failed = get_user_model().objects.get(username="eve"), []
    for model in models():
        model_admin: Any = admin.site._registry[model]
        for name, value in _filters(model, model_admin, rf):
            request = rf.get("/")
            request.user = user
            given = QueryDict(mutable=True)
            given[name] = value
            request.GET = given
            request._messages = CookieStorage(request)
            try:
                with transaction.atomic():
                    list(model_admin.get_changelist_instance(request).result_list)
            except ANSWERS:
                continue
            except Exception as error:
                failed.append(
                    f"{model._meta.label}?{name}={value[:25]!r}: {type(error).__name__} {str(error)[:60]}"
                )
    assert failed == []


def _filters(model: Any, model_admin: Any, rf: RequestFactory) -> Iterator[tuple[str, str]]:
    """Each parameter its list knows, with each hostile value; each column by some look-ups."""
    request = rf.get("/")
    listed = {"first_day", "last_day", *LIST_PARAMETERS}
    for item in model_admin.get_list_filter(request):
        listed.add(item if isinstance(item, str) else getattr(item, "parameter_name", None) or "q")
    yield from product(sorted(listed), (value for value in HOSTILE if NUL not in value))
    columns = [field.name for field in model._meta.concrete_fields]
    values = cycle(IDS[1:3])
    yield from ((f"{column}{end}", next(values)) for column, end in product(columns, ENDINGS))


@pytest.mark.only_on("sqlite", why="PostgreSQL compares any numbers")
def test_a_number_of_more_than_64_bits_in_a_filter_is_a_bad_request(
    client: Client, rf: RequestFactory
) -> None:
    make()
    for model in models():
        here = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        for item in ("pk", *admin.site._registry[model].get_list_filter(rf.get("/"))):
            name = item if isinstance(item, str) else getattr(item, "parameter_name", None) or "q"
            assert client.get(f"{here}?{name}={2**63}").status_code < 500, (here, name)


def test_a_nul_character_in_the_address_is_a_bad_request(client: Client) -> None:
    """PostgreSQL takes none in text; every list refuses it before it asks."""
    for model in models():
        here = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        assert client.get(f"{here}?q=a%00b").status_code == 400, here
        assert client.get(f"{here}?a%00b=1").status_code == 400, here


def test_no_action_of_a_list_fails_for_hostile_ids(client: Client, rf: RequestFactory) -> None:
    make()
    request = rf.get("/")
    request.user, failed = get_user_model().objects.get(username="eve"), []
    for model in models():
        here = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        actions = (*admin.site._registry[model].get_actions(request), "made-up")
        for action, value in product(actions, IDS):
            form = {"_selected_action": value, "action": action, "index": "0", "post": "yes", "reason": "x"}
            with transaction.atomic():
                answer = client.post(here, form)
                transaction.set_rollback(True)
            if answer.status_code >= 500:
                failed.append(f"{model._meta.label} {action} {value[:25]!r}")
    assert failed == []


def test_the_last_day_of_the_calendar_is_a_day_like_any_other(client: Client) -> None:
    here = reverse("admin:queuemgr_auditentry_changelist")
    assert client.get(f"{here}?first_day=9999-12-31&last_day=9999-12-31").status_code == 200
    assert client.get(f"{here}export/csv?last_day=9999-12-31").status_code == 200
    assert client.get(f"{here}?first_day=0001-01-01").status_code == 200
