"""Saved views of lists: who sees, shares, opens and deletes them, and what opening one finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from queuemgr.models import AuditEntry, SavedView
from queuemgr.operations import saved_views
from queuemgr.scheduling import limit_rows
from tests.integration.web.admin.admin_pages import a_failed, page, text_of

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>"
EXECUTIONS = "queuemgr.execution"
SAVE = "admin:savedview_save"


@pytest.fixture(autouse=True)
def _limits() -> None:
    limit_rows.sync()


@pytest.fixture
def person(static_root: None) -> Callable[..., Client]:
    """A browser of someone on the staff with these permissions."""

    def log_in(name: str, *codenames: str) -> Client:
        user, client = User.objects.create_user(name, is_staff=True), Client()
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client.force_login(user)
        return client

    return log_in


def save(client: Client, name: str, query: str, *, shared: bool = False, of_list: str = EXECUTIONS) -> Any:
    given = {"name": name, "query": query, "list": of_list, **({"shared": "on"} if shared else {})}
    return client.post(reverse(SAVE), given, follow=True)


def opened(client: Client, name: str) -> Any:
    return client.get(
        reverse("admin:savedview_open", args=[SavedView.objects.get(name=name).pk]), follow=True
    )


def deleted(client: Client, name: str) -> Any:
    return client.post(reverse("admin:savedview_delete", args=[SavedView.objects.get(name=name).pk]))


def test_a_view_keeps_filters_search_and_order_and_leads_to_an_address_that_can_be_shared(
    person: Callable[..., Client],
) -> None:
    ann = person("ann", "view_execution", "view_limit")
    save(ann, "failed letters", "state=failed&q=letter&p=3")
    assert opened(ann, "failed letters").redirect_chain[-1][0] == f"{page('execution')}?state=failed&q=letter"
    save(ann, "by name", "o=-1&q=host", of_list="queuemgr.limit")
    response = opened(ann, "by name")
    assert response.redirect_chain[-1][0] == f"{page('limit')}?o=-1&q=host"
    assert '<a href="' in text_of(response)
    assert "aria-current" in text_of(response).split('aria-label="Saved views"')[1].split("</nav>")[0]


def test_only_its_owner_sees_a_view_that_is_not_shared(person: Callable[..., Client]) -> None:
    ann, bob = person("ann", "view_execution", "share_savedview"), person("bob", "view_execution")
    save(ann, "mine", "state=failed")
    save(ann, "ours", "state=done", shared=True)
    assert "mine" in text_of(ann.get(page("execution")))
    shown = text_of(bob.get(page("execution")))
    assert "ours" in shown
    assert ">mine<" not in shown
    assert opened(bob, "mine").status_code == 404
    assert deleted(bob, "ours").status_code == 403
    boss = person("boss", "view_execution", "delete_savedview")
    assert deleted(boss, "mine").status_code == 404
    assert deleted(boss, "ours").status_code == 302
    assert deleted(ann, "mine").status_code == 302
    assert not SavedView.objects.exists()


def test_sharing_needs_its_permission_and_is_recorded(person: Callable[..., Client]) -> None:
    ann, bob = person("ann", "view_execution", "share_savedview"), person("bob", "view_execution")
    assert save(bob, "ours", "state=done", shared=True).status_code == 403
    save(ann, "own", "state=done")
    assert not AuditEntry.objects.exists()
    save(ann, "ours", "state=done", shared=True)
    save(ann, "ours", "state=failed")  # in place of the other, for herself again
    deleted(ann, "ours")
    entries = AuditEntry.objects.order_by("pk").values_list("action", "target", "actor")
    assert list(entries) == [(saved_views.SAVE, "view ours of execution", "ann")] * 2


def test_two_saves_of_a_name_at_once_leave_one_and_tell_the_other(
    person: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, now = person("ann", "view_execution"), timezone.now()
    key = str(User.objects.get(username="ann").pk)

    def saved_meanwhile() -> Any:
        SavedView.objects.create(list=EXECUTIONS, name="mine", owner_key=key, created_at=now)
        return now

    monkeypatch.setattr(saved_views, "database_now", saved_meanwhile)
    assert "was saved at the same moment" in text_of(save(ann, "mine", "state=failed"))


def test_a_view_of_a_list_that_one_may_not_see_is_neither_saved_nor_opened(
    person: Callable[..., Client],
) -> None:
    ann, bob = person("ann", "view_execution", "share_savedview"), person("bob", "view_limit")
    save(ann, "ours", "state=done", shared=True)
    assert opened(bob, "ours").status_code == 403
    assert save(bob, "x", "state=done").status_code == 403
    assert save(bob, "x", "", of_list="auth.permission").status_code == 404


@pytest.mark.parametrize(
    ("of_list", "query", "said"),
    [
        (EXECUTIONS, "payload__contains=x", "no filter"),
        (EXECUTIONS, "age=eternal", "is not one of"),
        ("queuemgr.queue", "was_there=1", "no filter"),
    ],
)
def test_a_view_whose_filter_is_no_longer_there_says_so(
    superuser: Client, of_list: str, query: str, said: str
) -> None:
    assert said in text_of(save(superuser, "old", query, of_list=of_list))
    root = User.objects.get(username="root")
    SavedView.objects.create(
        list=of_list, name="old", query=query, owner_key=str(root.pk), owner="root", created_at=timezone.now()
    )
    response = opened(superuser, "old")
    assert "cannot be shown as it was saved" in text_of(response)
    assert said in text_of(response)
    assert query not in response.redirect_chain[-1][0]


@pytest.mark.parametrize(
    ("name", "query"), [("", ""), ("a\nb", ""), ("n" * 81, ""), ("nul", "q=%00"), ("long", f"q={'x' * 3000}")]
)
def test_what_cannot_be_kept_is_refused_with_a_sentence(superuser: Client, name: str, query: str) -> None:
    response = save(superuser, name, query)
    assert response.status_code in (200, 400)
    assert not SavedView.objects.exists()


def test_hostile_names_are_shown_as_text(superuser: Client) -> None:
    response = save(superuser, HOSTILE, "state=failed", shared=True)
    assert HOSTILE not in text_of(response)
    assert "&lt;script&gt;" in text_of(response)


def test_names_are_unique_for_an_owner_and_among_shared_views(person: Callable[..., Client]) -> None:
    ann = person("ann", "view_execution", "share_savedview")
    bob = person("bob", "view_execution", "share_savedview")
    for query in ("state=done", "state=failed"):
        save(ann, "ours", query, shared=True)
    assert SavedView.objects.get().query == "state=failed"
    assert "everybody sees is called" in text_of(save(bob, "ours", "", shared=True))
    save(bob, "ours", "")
    row = SavedView.objects.get(owner="bob")
    with pytest.raises(IntegrityError), transaction.atomic():
        SavedView.objects.filter(pk=row.pk).update(shared=True)


def test_the_command_lists_by_a_shared_view(superuser: Client) -> None:
    for key in ("doc:1", "other:2"):
        a_failed(key)
    save(superuser, "failed docs", "state=failed&q=doc&age=day", shared=True)
    out = StringIO()
    call_command("queue", "list", "--view", "failed docs", "--json", stdout=out)
    assert [json.loads(line)["key"] for line in out.getvalue().splitlines()] == ["doc:1"]
    with pytest.raises(CommandError, match="there are: 'failed docs'"):
        call_command("queue", "list", "--view", "gone")
    SavedView.objects.update(query="state=failed&colour=red")
    with pytest.raises(CommandError, match="has no filter 'colour'"):
        call_command("queue", "list", "--view", "failed docs")
