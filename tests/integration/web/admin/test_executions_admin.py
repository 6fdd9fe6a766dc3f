"""The list of executions: finding them, and acting on some or on all that match."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import HIGH, NewExecution
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import UNSUCCESSFUL, Attempt, AuditEntry, Batch, Execution, State
from queuemgr.operations.bulk.actions import ACTIONS
from queuemgr.operations.executions import cancel
from queuemgr.reporting import filtering
from queuemgr.reporting.filtering import FILTERS
from queuemgr.web.admin import executions
from queuemgr.web.admin.bulk_wizard import BulkForm
from queuemgr.web.admin.execution_actions import EXECUTION_ACTIONS, LIST_ACTIONS
from queuemgr.web.admin.execution_filters import ExecutionFilters
from tests.integration.web.admin.admin_pages import act, page, text_of
from tests.integration.web.admin.execution_pages import ANN, a_failed_one, listed, own_page

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def failed(played: Any, probes: Any) -> Execution:
    return a_failed_one(played, probes)


FOUND: tuple[tuple[dict[str, str], list[str]], ...] = (
    ({"limit": "host:a"}, ["p0"]),
    ({"limit": "host:b"}, ["other0"]),
    ({"worker": "w@one"}, ["p0"]),
    ({"text": "page seven"}, ["p0"]),
    ({"text": "page seven", "error_kind": "timeout"}, []),
    ({"batch": "spring"}, ["other0"]),
    ({"error_fingerprint": "ab" * 8}, ["p0"]),
    ({"age": "week", "q": "oth"}, ["other0"]),
    ({"limit": "host:a", "status": "pending"}, []),
)  # fmt: skip


def test_filters_of_the_list_find_what_they_name(failed: Execution, probes: Any, operator: Client) -> None:
    (other,) = probes(1, HIGH, prefix="other", limit_key="host:b")
    batch = Batch.objects.create(name="spring", flow="probe")
    Execution.objects.filter(pk=other.pk).update(batch=batch, batch_seq=0)
    Execution.objects.filter(pk=failed.pk).update(error_fingerprint="ab" * 8)
    assert [(query, listed(operator, **query)) for query, _ in FOUND] == [*FOUND]


def test_both_forms_offer_every_filter_as_the_registry_describes_it() -> None:
    """The list those that are used most, and any other once a link has it; the form of bulk actions all."""
    offered_always = {*ExecutionFilters({}).fields} - {"q", "age"}
    assert offered_always <= set(FILTERS)
    of_list = ExecutionFilters(dict.fromkeys(FILTERS, "x")).fields
    of_bulk = {name: BulkForm({}, ()).fields[name] for name in FILTERS}
    assert {*of_list} - {"q", "age"} == {*FILTERS} - {"ids"}
    for name, filter_ in FILTERS.items():
        assert (of_bulk[name].label, of_bulk[name].help_text) == (filter_.label, filter_.help)
        if name in of_list:
            assert of_list[name].label == filter_.label
            assert of_list[name].help_text == f"{filter_.help} {filter_.bounded_help}".strip()


@pytest.mark.parametrize("query", ["status=ready", "batch=winter", "age=young", "limit=" + "x" * 300])
def test_an_invalid_filter_is_reported_by_name_and_shows_no_rows(
    probes: Any, operator: Client, query: str
) -> None:
    probes(1)
    response = operator.get(f"{page('execution')}?{query}")
    assert "Nothing is shown: " in text_of(response)
    assert not response.context["cl"].result_list


def test_ended_work_is_looked_for_among_the_newest_attempts_only(
    failed: Execution, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page must not read millions of attempts; the form says how far it looks."""
    monkeypatch.setattr(filtering, "MAX_ATTEMPTS_READ", 1)
    assert listed(operator, limit="host:a") == ["p0"]
    Attempt.objects.create(
        **{
            f.attname: getattr(Attempt.objects.latest("pk"), f.attname)
            for f in Attempt._meta.concrete_fields
            if f.attname not in ("id", "lease_id", "limit_keys")
        },
        lease_id="0" * 32,
        limit_keys="host:z",
    )
    assert listed(operator, limit="host:a") == []


def test_filters_by_age_use_ids_in_a_long_table_and_find_the_same_rows(
    operator: Client, sent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times have no index; ids, which grow with them, do."""
    enqueue_many("probe", [NewExecution(f"doc:{n:02}") for n in range(40)])
    for number, execution in enumerate(Execution.objects.order_by("-pk")):
        then = database_now() - timedelta(hours=number * 6 + 0.5)
        Execution.objects.filter(pk=execution.pk).update(created_at=then)
    everything = {age: listed(operator, age=age) for age in ("hour", "day", "week", "older")}
    monkeypatch.setattr(filtering, "ID_PRECISION", 2)
    assert {age: listed(operator, age=age) for age in everything} == everything
    assert [len(found) for found in everything.values()] == [1, 4, 28, 36]


def test_the_filter_in_the_address_is_the_bulk_actions(probes: Any, operator: Client) -> None:
    page_of = operator.get(page("execution"), {"status": "failed", "q": "doc:"})
    bulk = f"{reverse('admin:bulk_new')}?status=failed&key_prefix=doc%3A"
    assert page_of.context["cl"].bulk_address() == bulk
    assert "Act on all that match" in text_of(page_of)


def test_a_large_selection_is_handed_to_a_bulk_action(
    probes: Any, staff: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No page times out, and nothing is half done."""
    monkeypatch.setattr(executions, "AT_ONCE", 2)
    first, *_ = probes(3)
    client = staff("view_execution", "cancel_execution", "add_bulkaction")
    chosen = {"_selected_action": [first.pk], "select_across": "1", "action": "cancel"}
    response = client.post(page("execution") + "?flow=probe", chosen)
    assert response.headers["Location"] == f"{reverse('admin:bulk_new')}?flow=probe&verb=cancel"
    assert Execution.objects.waiting().count() == 3


def test_many_chosen_across_pages_pass_the_page_between_without_naming_each(
    staff: Callable[..., Client], sent: Any
) -> None:
    """Also where there is no bulk action to hand over to. The page between
    posts one row and "all", never more fields than Django takes."""
    operator = staff("view_execution", "skip_execution")
    enqueue_many("probe", [NewExecution(f"doc:{n}") for n in range(60)])
    first = Execution.objects.order_by("pk")[0]
    chosen = {"_selected_action": [first.pk], "select_across": "1", "action": "skip"}
    asking = text_of(operator.post(page("execution"), chosen))
    assert len(re.findall(r'name="_selected_action"', asking)) == 1
    assert "all that match" in asking
    done = operator.post(page("execution"), {**chosen, "reason": "not wanted"}, follow=True)
    assert "60 executions were skipped" in text_of(done)
    assert AuditEntry.objects.filter(action="skip", reason="not wanted").count() == 60


@pytest.mark.parametrize("name", ["cancel", "skip", "retry_from_start", "reschedule"])
def test_an_action_that_needs_input_asks_first_and_changes_nothing_until_then(
    probes: Any, operator: Client, name: str
) -> None:
    (execution,) = probes(1)
    assert 'name="reason"' in text_of(act(operator, "execution", name, execution))
    assert "This field is required" in text_of(act(operator, "execution", name, execution, reason=""))
    assert Execution.objects.get().state == State.WAITING
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("act_of", EXECUTION_ACTIONS, ids=lambda act_of: act_of.name)
def test_every_action_needs_its_own_permission(
    probes: Any, staff: Callable[..., Client], act_of: Any
) -> None:
    """Posted directly, from the list and from the page, by someone who may do all the others."""
    (execution,) = probes(1)
    if act_of.states == UNSUCCESSFUL:
        cancel([execution], ANN)
    others = {other.permission for other in EXECUTION_ACTIONS} - {act_of.permission}
    client = staff("view_execution", *others)
    before = Execution.objects.values().get(), AuditEntry.objects.count()
    typed = {"reason": "x", "when": "2030-01-01T06:00", "priority": "0", "payload": "{}"}
    assert act_of.label + "</" not in text_of(client.get(own_page(execution)))
    url = page("execution", execution.pk, view="action")
    assert client.post(url, {"act": act_of.name, **typed}).status_code == 403
    if act_of in LIST_ACTIONS:
        act(client, "execution", act_of.name, execution, **typed)
    assert (Execution.objects.values().get(), AuditEntry.objects.count()) == before


def test_every_action_of_the_list_is_a_bulk_action_too() -> None:
    assert {act_of.bulk for act_of in LIST_ACTIONS} == {*ACTIONS}
