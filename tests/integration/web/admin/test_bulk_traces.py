"""Bulk actions leave a trace on each execution's page; those that nothing undoes need a reason everywhere."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from queuemgr.base.errors import BadInput
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import BulkAction, Execution
from queuemgr.operations import bulk
from queuemgr.operations.bulk import BulkRequest
from queuemgr.operations.bulk.actions import ACTIONS
from queuemgr.operations.controls import Actor
from tests.integration.cli.commands import run
from tests.integration.operations.bulk_fixtures import ANN, a_person, carried_out, some_failed, started
from tests.integration.web.admin.admin_pages import page, text_of

pytestmark = pytest.mark.django_db
IRREVERSIBLE = [name for name, action in ACTIONS.items() if action.irreversible]


@pytest.fixture(autouse=True)
def _nothing_is_sent(sent: list[Any]) -> None:
    """What is enqueued stays where it is."""


def page_of(execution: Execution) -> str:
    return page("execution", execution.pk, view="change")


def test_a_bulk_action_is_in_the_history_of_each_execution_it_changed_and_of_no_other(
    superuser: Client,
) -> None:
    some, others = some_failed(5), some_failed(1, kind="timeout", prefix="t")
    action = carried_out(started("skip", {"error_kind": "network"}), rows=2)
    for execution in some:
        text = text_of(superuser.get(page_of(execution)))
        line = text[text.index("skip by ann, bulk action") :]
        assert line.startswith(f"skip by ann, bulk action #{action.pk}</a>")
        assert f'href="{page("bulkaction", action.pk, view="change")}"' in text
        assert "proxy mended" in line
    assert "bulk action" not in text_of(superuser.get(page_of(others[0]))).split('id="ex-history"')[1]


def test_what_was_enqueued_after_a_bulk_action_is_not_searched_for_it(superuser: Client) -> None:
    some_failed(1)
    carried_out(started("skip"))
    (later,) = some_failed(1, prefix="later")
    assert "bulk action #" not in text_of(superuser.get(page_of(later)))


def test_only_what_a_person_can_take_back_is_reversible() -> None:
    assert IRREVERSIBLE == ["retry_from_start", "cancel", "skip"]


@pytest.mark.parametrize("name", IRREVERSIBLE)
def test_what_cannot_be_undone_needs_a_reason_whoever_starts_it(superuser: Client, name: str) -> None:
    a_person()
    if name == "cancel":
        enqueue("probe", "f0")
    else:
        some_failed(1)
    filters = {"key_prefix": "f"}
    for reason in ("", "  "):
        with pytest.raises(BadInput, match="give a reason"):
            bulk.begin(BulkRequest(name, filters), Actor("ann", "api", reason))
        previewed = bulk.create(BulkRequest(name, filters), Actor("ann", "api", reason))
        with pytest.raises(BadInput, match="give a reason"):
            bulk.start(previewed.pk, Actor("ann", "api", reason))
    refused = run("queue", "bulk", "start", name, "key_prefix=f")
    assert (refused.code, "give a reason" in refused.error) == (3, True)
    asked = superuser.post(reverse("admin:bulk_new"), {"verb": name, **filters, "reason": " "})
    assert "give a reason" in text_of(asked)
    assert 'name="reason" maxlength="200" value="" required' in text_of(
        superuser.get(reverse("admin:bulk_new", query={"verb": name, **filters}))
    )
    assert not BulkAction.objects.exclude(started_at=None).exists()
    for confirmed in (None, 0):
        with pytest.raises(BadInput, match="would change 1 executions: give confirm 1"):
            bulk.begin(BulkRequest(name, filters), ANN, confirmed)
    assert not BulkAction.objects.exclude(started_at=None).exists()
    refused = run("queue", "bulk", "start", name, "key_prefix=f", "--reason", "x")
    assert (refused.code, "give confirm 1" in refused.error) == (3, True)
    asked = superuser.post(reverse("admin:bulk_new"), {"verb": name, **filters, "reason": "x"})
    assert "give confirm 1" in text_of(asked)
    assert 'name="confirm" value="1"' in text_of(
        superuser.get(reverse("admin:bulk_new", query={"verb": name, **filters}))
    )
    assert bulk.begin(BulkRequest(name, filters), ANN, 1).reason == ANN.reason
