"""What is done to a limit, a queue or a worker from wherever its name is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import all_queues
from queuemgr.models import AuditEntry, Limit, Worker
from queuemgr.operations import controls, workers
from queuemgr.operations.controls import Actor
from queuemgr.reporting.remedies import LIMIT, QUEUE, WORKER, remedy_of, thing_of
from queuemgr.scheduling import breakers, limit_rows
from queuemgr.web.act_links import ACT_LINKS
from tests.integration.web.admin.admin_pages import text_of

pytestmark = pytest.mark.django_db
ANN = Actor("ann", "test", "because")
FRONT = "/admin/"
NAMES = {LIMIT: "phase:prep", QUEUE: "prep.low", WORKER: "w1@test"}
BAD = ("", "-1", "1e9", "nan", "99999999999999999999", "x" * 5_000, "<b>", "a\x00b", "9999-99-99T99:99")


@pytest.fixture(autouse=True)
def _things(sent: list[Any], make_worker: Callable[..., Worker]) -> None:
    """Each of them in the state that its action ends."""
    limit_rows.sync()
    make_worker(name=NAMES[WORKER])


def prepare(kind: str, verb: str) -> None:
    name = NAMES[kind]
    if verb == "resume":
        workers.drain(name, ANN) if kind == WORKER else controls.pause(name, ANN)
    if verb == "unblock":
        breakers.open_breaker(name, database_now() + timedelta(minutes=9), "5 x timeout in a row")


def page_of(kind: str, verb: str, name: str) -> str:
    return reverse(f"admin:queuemgr_{kind}_{verb}", query={"name": name})


def filled(**changed: Any) -> Mapping[str, Any]:
    return {"reason": "new disk", "max_running": "7", "back": FRONT, **changed}


@pytest.mark.parametrize(("kind", "verb"), ACT_LINKS)
def test_an_action_is_done_with_its_reason_and_leads_back(superuser: Client, kind: str, verb: str) -> None:
    prepare(kind, verb)
    name, here = NAMES[kind], page_of(kind, verb, NAMES[kind])
    shown = text_of(superuser.get(here, headers={"referer": f"http://testserver{FRONT}"}))
    assert f'name="back" value="http://testserver{FRONT}"' in shown
    before = AuditEntry.objects.count()
    answer = superuser.post(here, filled())
    assert answer["Location"] == FRONT
    entry = AuditEntry.objects.order_by("-pk")[0]
    assert AuditEntry.objects.count() == before + 1
    assert (entry.target, entry.source, entry.reason) == (name, "admin", "new disk")


@pytest.mark.parametrize(("kind", "verb"), ACT_LINKS)
def test_who_may_only_look_may_not_act_and_is_offered_nothing(
    staff: Callable[..., Client], kind: str, verb: str
) -> None:
    client = staff("view_execution", f"view_{kind}")
    here = page_of(kind, verb, NAMES[kind])
    assert (client.get(here).status_code, client.post(here, filled()).status_code) == (403, 403)
    assert here not in text_of(client.get(FRONT))


@pytest.mark.parametrize(("kind", "verb"), ACT_LINKS)
def test_no_bad_value_in_a_form_is_an_error_of_the_server(superuser: Client, kind: str, verb: str) -> None:
    prepare(kind, verb)
    here = page_of(kind, verb, NAMES[kind])
    for field in ("reason", "until", "max_running", "back"):
        for bad in BAD:
            answer = superuser.post(here, filled(**{field: bad}))
            assert answer.status_code in (200, 302), (field, bad)
            prepare(kind, verb)


@pytest.mark.parametrize(("kind", "verb"), ACT_LINKS)
def test_a_name_that_nothing_has_is_named_and_leads_back(superuser: Client, kind: str, verb: str) -> None:
    for name in ("nothing", "", "x" * 5_000, "<b>", "prep.high" if kind == LIMIT else "fleet", "everything"):
        answer = superuser.post(page_of(kind, verb, name), filled(), follow=True)
        assert answer.redirect_chain == [(FRONT, 302)], name
        assert [message.level_tag for message in answer.context["messages"]] == ["warning"]
    assert not AuditEntry.objects.exists()


def test_no_page_leads_back_to_another_host(superuser: Client) -> None:
    here = page_of(LIMIT, "pause", "fleet")
    for elsewhere in ("https://evil.example/admin/", "//evil.example", "javascript:alert(1)", here):
        assert elsewhere not in text_of(superuser.get(here, headers={"referer": elsewhere}))
        answer = superuser.post(here, filled(back=elsewhere))
        assert answer["Location"] == reverse("admin:queuemgr_limit_changelist")


def test_a_cap_below_its_reserve_is_refused_at_its_field(superuser: Client) -> None:
    controls.edit_limit("fleet", ANN, max_running=20, reserved_high=5)
    answer = superuser.post(page_of(LIMIT, "cap", "fleet"), filled(max_running="4"))
    assert "reserved" in " ".join(answer.context["form"].errors["__all__"])
    assert Limit.objects.get(name="fleet").max_running == 20


def test_a_name_leads_to_the_page_of_its_row_or_of_its_pattern(superuser: Client) -> None:
    rows = {name: Limit.objects.get(name=name).pk for name in ("fleet", "host:*")}
    for name, pk in (("fleet", rows["fleet"]), ("host:a.example:443", rows["host:*"])):
        answer = superuser.get(reverse("admin:queuemgr_limit_named", query={"name": name}))
        assert answer["Location"] == reverse("admin:queuemgr_limit_change", args=[pk])
    answer = superuser.get(reverse("admin:queuemgr_limit_named", query={"name": "nothing"}))
    assert answer["Location"] == f"{reverse('admin:queuemgr_limit_changelist')}?q=nothing"


def test_each_kind_of_reason_is_about_something_and_offers_what_ends_it() -> None:
    assert remedy_of("capacity", "fleet") == (LIMIT, "cap", "fleet")
    assert remedy_of("paused", all_queues()[0]) == (QUEUE, "resume", all_queues()[0])
    assert remedy_of("breaker_open", "host:a") == (LIMIT, "unblock", "host:a")
    assert (remedy_of("rate", "host:a"), thing_of("rate", "host:a")) == (None, (LIMIT, "host:a"))
    assert (thing_of("workers", "workers"), thing_of("run_after", "run_after")) == ((WORKER, ""), None)
