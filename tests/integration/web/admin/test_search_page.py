"""The search box and its page: on every page of ours, for whoever may see what it finds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from pipeline.models import Document
from queuemgr.extend.search import Found
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Execution
from queuemgr.web import links
from tests.integration.cli.commands import queue
from tests.integration.web.admin.admin_pages import a_failed, page, text_of
from tests.integration.web.api.api_client import api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sent")]
SEARCH = "admin:search_everything"
TITLE = "On <b>bounded</b> searches of long titles"


def found(client: Client, text: str) -> dict[str, list[str]]:
    """The pages that are linked, by the heading above."""
    shown = text_of(client.get(reverse(SEARCH), {"q": text}))
    parts = re.findall(r'<h2 id="found-[^"]*">(.*?)</h2>(.*?)</section>', shown, re.DOTALL)
    return {kind: [unescape(one) for one in re.findall(r'href="([^"]+)"', rows)] for kind, rows in parts}


@pytest.fixture
def paper() -> Document:
    return Document.objects.create(
        key="doi:10.1/x", kind="doi", source="https://a.example/?signature=SESAME", title=TITLE,
        enqueued=True, doi="10.9999/other",
    )  # fmt: skip


def test_a_paper_is_found_by_any_part_of_its_title_its_doi_and_its_key(
    superuser: Client, paper: Document
) -> None:
    address = reverse("admin:pipeline_document_change", args=[paper.pk])
    for text in ("bounded", "TITLES of long", "titles bounded", "9999/oth", "10.1/x"):
        assert found(superuser, text) == {"Papers": [address]}
    assert found(superuser, "SESAME") == {}
    shown = text_of(superuser.get(reverse(SEARCH), {"q": "bounded"}))
    assert "On &lt;b&gt;<mark>bounded</mark>&lt;/b&gt;" in shown


def test_one_finds_only_what_one_may_see_the_list_of(staff: Callable[..., Client], paper: Document) -> None:
    client = staff("view_execution")
    enqueue("probe", "doi:10.1/x", {"title": TITLE})
    execution = Execution.objects.get()
    assert found(client, "10.1/x") == {"Executions": [page("execution", execution.pk, view="change")]}
    assert found(client, "bounded") == {}
    User.objects.get().user_permissions.set(Permission.objects.filter(codename="view_document"))
    assert [*found(client, "10.1/x")] == ["Papers"]


def test_failures_have_a_link_to_all_of_them_and_pages_of_the_menu_are_found(superuser: Client) -> None:
    for n in range(9):
        a_failed(f"k{n}", message=f"no answer from host {n}")
    every = page("execution") + "?text=no+answer"
    assert len(found(superuser, "no answer")["Failures"]) == 9
    assert found(superuser, "no answer")["Failures"][-1] == every
    assert found(superuser, "audit")["Pages"] == [page("auditentry")]
    assert "no answer from host 0" in text_of(superuser.get(every))


def test_a_hit_whose_page_this_site_does_not_have_leads_nowhere() -> None:
    assert links.page_of(Found("x", "", "shop_order_change", (1,))) == ""


def box(client: Client, address: str) -> int:
    response = client.get(address)
    return text_of(response).count('id="sg-find"')


def test_the_box_is_on_every_page_once_and_for_nobody_who_may_search_nothing(
    superuser: Client, staff: Callable[..., Client], paper: Document
) -> None:
    a_failed("k")
    models = [
        model._meta for model in admin.site._registry if model._meta.app_label in ("queuemgr", "pipeline")
    ]
    lists = [reverse(f"admin:{each.app_label}_{each.model_name}_changelist") for each in models]
    rows = [page("execution", Execution.objects.get().pk, view="change")]
    rows += [reverse("admin:pipeline_document_change", args=[paper.pk])]
    named = [
        reverse(f"admin:{name}") for name in ("index", "failures", "bulk_new", "costs", "search_everything")
    ]
    assert {address: box(superuser, address) for address in (*lists, *rows, *named)} == dict.fromkeys(
        (*lists, *rows, *named), 1
    )
    assert box(staff("view_apitoken"), page("apitoken")) == 0


def test_the_api_answers_the_same_for_the_permissions_of_its_caller(paper: Document) -> None:
    enqueue("probe", "doi:10.1/x")
    answer: Any = api("read", permissions=["view_execution"]).get("search", q="10.1/X").json()
    (kind,) = answer["kinds"]
    (hit,) = kind["found"]
    assert (kind["kind"], kind["more"], kind["problem"]) == ("Executions", False, "")
    assert (hit["text"], hit["detail"]) == ("doi:10.1/x", "probe, pending")
    assert hit["url"].endswith(page("execution", Execution.objects.get().pk, view="change"))


def test_the_command_finds_the_same_as_a_table_and_as_json(paper: Document) -> None:
    enqueue("probe", "on-bounded-work")
    assert re.search(r"^Papers +On <b>bounded</b> searches", queue("search", "bounded").out, re.MULTILINE)
    execution = Execution.objects.get()
    lines = [json.loads(line) for line in queue("search", "bounded", "--json").out.splitlines()]
    assert {
        "kind": "Executions",
        "text": execution.key,
        "detail": "probe, pending",
        "id": execution.pk,
    } in lines
    assert {line["kind"] for line in lines} == {"Executions", "Papers"}


def test_the_search_of_the_menu_finds_pages_and_no_rows() -> None:
    assert not settings.UNFOLD.get("COMMAND", {}).get("search_models")
