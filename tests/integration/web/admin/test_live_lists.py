"""Lists that refresh where they are read: what a page that asks again is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Execution, Queue, Worker
from queuemgr.operations import batches, controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from queuemgr.web import page_registry
from tests.integration.web.admin.admin_pages import a_failed, an_attempt, page

pytestmark = pytest.mark.django_db

LIVE = ("execution", "attempt", "batch", "queue", "limit", "worker")
BY = Actor("kim", "command", "the disk is full")


@pytest.fixture(autouse=True)
def _queues() -> None:
    limit_rows.sync()


def asked_again(client: Client, url: str, known: str) -> Any:
    return client.get(url, headers={"X-Requested-With": "fetch", "If-None-Match": known})


def test_these_lists_refresh() -> None:
    pages = page_registry._pages.items()
    assert {model._meta.model_name for model, cls in pages if cls.is_live} == {*LIVE}


def test_a_list_that_shows_the_same_is_not_made_again(superuser: Client) -> None:
    an_attempt(a_failed("doc:1"))
    for model in LIVE:
        first = superuser.get(page(model))
        again = asked_again(superuser, page(model), first["ETag"])
        assert (again.status_code, again.content) == (304, b"")
        assert again["X-As-Of"].endswith("UTC")
        assert asked_again(superuser, page(model), f"W/{first['ETag']}").status_code == 304  # compressed


CHANGES: dict[str, Callable[[], Any]] = {
    "execution": lambda: enqueue("probe", "doc:2"),
    "attempt": lambda: an_attempt(Execution.objects.get(key="doc:1")),
    "batch": lambda: batches.open_batch("letters", "probe", BY),
    "queue": lambda: controls.pause("prep.low", BY),
    "limit": lambda: controls.pause("phase:prep", BY),
    "worker": lambda: Worker.objects.update(seen_at=timezone.now()),
}


def test_a_list_is_answered_anew_once_it_shows_something_else(superuser: Client) -> None:
    a_failed("doc:1")
    now = timezone.now()
    Worker.objects.create(name="w", host="h", pid=1, queues=["x"], slots=2, started_at=now, seen_at=now)
    for model, change in CHANGES.items():
        known = superuser.get(page(model))["ETag"]
        change()
        again = asked_again(superuser, page(model), known)
        assert (again.status_code, again["ETag"] != known) == (200, True), model


def test_counts_of_tabs_are_part_of_what_is_shown(superuser: Client) -> None:
    enqueue("probe", "doc:1")
    url = f"{page('execution')}?state=waiting"
    known = superuser.get(url)["ETag"]
    a_failed("doc:2")
    assert asked_again(superuser, url, known).status_code == 200


def test_messages_wait_for_a_page_that_somebody_opens(superuser: Client) -> None:
    queue = Queue.objects.get(name="prep.low")
    superuser.post(page("queue"), {"action": "resume", "_selected_action": [queue.pk], "index": 0})
    assert b"sg-messages" not in asked_again(superuser, page("queue"), "").content
    assert b"sg-messages" in superuser.get(page("queue")).content


def test_a_popup_does_not_refresh(superuser: Client) -> None:
    opened = superuser.get(f"{page('queue')}?_popup=1")
    assert opened.status_code == 200
    assert "list-live" not in opened.content.decode()
