"""What is done later in a person's name is done in the name of who started it, and only while they may."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import NewExecution
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import ActionState, ApiToken, AuditEntry, BulkAction, Execution, Queue
from queuemgr.operations import api_tokens, bulk, controls, executions, roles, workers
from queuemgr.operations.bulk import BulkRequest, chunk
from queuemgr.operations.bulk import runner as bulk_runner
from queuemgr.operations.bulk.actions import ACTIONS, RESTORE
from queuemgr.operations.controls import Actor
from queuemgr.worker import housekeeping
from tests.integration.operations.bulk_fixtures import ANY_NUMBER, FAILED, carried_out, run_all, some_failed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("static_root")]


@pytest.fixture(autouse=True)
def no_messages(sent: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queuemgr.lifecycle.publish.periodic_job", lambda task: None)


def an_operator(name: str) -> User:
    roles.make()
    user = User.objects.create_user(name, is_staff=True)
    user.groups.add(Group.objects.get(name=roles.OPERATOR))
    return user


def deactivated(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def deleted(user: User) -> None:
    user.delete()


def made_anew(user: User) -> None:
    """Deleted, and another account of that name made, which may do as much."""
    user.delete()
    an_operator("otto")


def without_role(user: User) -> None:
    user.groups.clear()


def role_without(codename: str) -> Callable[[User], None]:
    def take(user: User) -> None:
        Group.objects.get(name=roles.OPERATOR).permissions.remove(Permission.objects.get(codename=codename))

    return take


LOSSES = {
    "deactivated": (deactivated, "otto is not active any more"),
    "deleted": (deleted, "the account otto that started it is gone"),
    "made anew": (made_anew, "the account otto that started it is gone"),
    "role taken away": (without_role, "otto does not have the permission queuemgr."),
    "may start no actions": (role_without("add_bulkaction"), "permission queuemgr.add_bulkaction any more"),
}  # fmt: skip

ARGUMENTS = {"priority": {"priority": "high"}, "reschedule": {"run_after": "2031-01-01 06:00"}}


def begun_by(user: User, verb: str = "retry", token: ApiToken | None = None) -> BulkAction:
    """An action of this person on six rows, two of which it has changed."""
    filters = FAILED
    if verb in ("cancel", "reschedule"):
        waiting(6)
        filters = {"key_prefix": "waits"}
    source = "api" if token else "admin"
    by = Actor(user.username, source, "reason", user_id=user.pk, token_id=token.pk if token else None)
    action = bulk.begin(BulkRequest(verb, filters, ARGUMENTS.get(verb, {})), by, ANY_NUMBER)
    assert chunk.change_next(action.pk, rows=2).changed == 2
    return action


def check_stopped(action: BulkAction, why: str, changed: int = 2) -> None:
    """It has stopped without another change, and says why where people look."""
    ended = bulk.get_or_error(action.pk)
    assert (ended.state, ended.changed, ended.stopped_by) == (ActionState.STOPPED, changed, "")
    assert ended.problem.startswith("stopped: ") and why in ended.problem
    entry = AuditEntry.objects.get(action="stop bulk action", action_id=action.pk)
    assert (entry.actor, entry.source, entry.affected) == ("queue", "system", changed)
    assert why in entry.reason


@pytest.mark.parametrize("loss", LOSSES)
def test_an_action_stops_when_who_started_it_may_not_act_any_more(loss: str) -> None:
    some_failed(6)
    user = an_operator("otto")
    action = begun_by(user)
    lose, why = LOSSES[loss]
    lose(user)
    assert run_all() == 0
    check_stopped(action, why)


@pytest.mark.parametrize("verb", ACTIONS)
def test_an_action_stops_when_who_started_it_loses_its_own_permission(verb: str) -> None:
    some_failed(6)
    action = begun_by(an_operator("otto"), verb)
    role_without(ACTIONS[verb].permission)(User.objects.get())
    assert chunk.change_next(action.pk) == chunk.ChunkResult()
    check_stopped(action, f"otto does not have the permission queuemgr.{ACTIONS[verb].permission} any more")


@pytest.mark.parametrize("codename", ["undo_auditentry", RESTORE.permission])
def test_an_undo_in_the_background_stops_when_its_person_may_not_undo_any_more(codename: str) -> None:
    some_failed(6)
    otto = an_operator("otto")
    action = bulk.begin(BulkRequest("priority", FAILED, {"priority": "high"}), Actor("ann", "command"))
    carried_out(action)
    undo = bulk.undo(action.pk, Actor(otto.username, "admin", user_id=otto.pk))
    assert chunk.change_next(undo.pk, rows=2).changed == 2
    role_without(codename)(otto)
    assert run_all() == 0
    check_stopped(undo, f"the permission queuemgr.{codename} any more")


@pytest.mark.parametrize("loss", ["revoked", "expired", "deleted", "owner deactivated"])
def test_an_action_stops_when_the_token_it_was_started_with_is_valid_no_more(loss: str) -> None:
    some_failed(6)
    otto = an_operator("otto")
    token = api_tokens.make("ci", otto, ["operate"], Actor("ann", "command")).token
    action = begun_by(otto, token=token)
    rows = ApiToken.objects.filter(pk=token.pk)
    if loss == "revoked":
        api_tokens.revoke([token], Actor("ann", "command"))
    elif loss == "expired":
        rows.update(expires_at=database_now())
    elif loss == "deleted":
        rows.delete()
    else:
        deactivated(otto)
    assert run_all() == 0
    check_stopped(action, {"owner deactivated": "otto is not active"}.get(loss, "token"))


def test_a_started_action_is_its_starters_and_names_who_previewed_it(client: Client) -> None:
    some_failed(6)
    otto, bea = an_operator("otto"), an_operator("bea")
    previewed = bulk.create(BulkRequest("retry", FAILED), Actor(otto.username, "admin", "proxy mended"))
    bulk.start(previewed.pk, Actor(bea.username, "api", user_id=bea.pk))
    deactivated(otto)
    done = carried_out(previewed)
    assert (done.state, done.changed) == (ActionState.DONE, 6), "whoever only previewed it may leave"
    assert (done.actor, done.source, done.previewed_by, done.reason) == ("bea", "api", "otto", "proxy mended")
    assert {entry.actor for entry in AuditEntry.objects.filter(action_id=done.pk)} == {"bea"}
    client.force_login(bea)
    assert (
        "bea, through api, previewed by otto"
        in client.get(f"/admin/queuemgr/bulkaction/{done.pk}/change/").content.decode()
    )


def test_the_rest_of_a_stopped_action_is_resumed_by_somebody_who_may() -> None:
    some_failed(6)
    otto, bea = an_operator("otto"), an_operator("bea")
    action = begun_by(otto)
    deactivated(otto)
    run_all()
    rest = carried_out(bulk.resume(action.pk, Actor(bea.username, "admin", user_id=bea.pk)))
    assert (rest.state, rest.changed, rest.actor) == (ActionState.DONE, 4, "bea")


def test_an_action_started_by_command_needs_no_account_and_one_of_another_person_runs_on() -> None:
    some_failed(6)
    by_command = bulk.begin(BulkRequest("retry", FAILED), Actor("root", "command"))
    otto = an_operator("otto")
    deactivated(otto)
    denied = bulk.begin(BulkRequest("priority", FAILED, {"priority": "high"}), Actor("otto", "admin"))
    bulk_runner.run()
    assert bulk.get_or_error(by_command.pk).state == ActionState.DONE
    check_stopped(denied, "otto is not active any more", changed=0)


def test_what_a_person_left_as_a_state_stays_when_they_leave(make_worker: Callable[..., Any]) -> None:
    """To end it with the account would start work that nobody decided to start."""
    otto, later = an_operator("otto"), database_now() + timedelta(days=1)
    (waits,) = waiting(1)
    by = Actor(otto.username, "admin", "upgrade")
    controls.pause("prep.high", by, later)
    executions.set_run_after([waits], later, by)
    make_worker(name="w@a")
    workers.drain("w@a", by)
    deactivated(otto)
    housekeeping.tick()
    queue = Queue.objects.get(name="prep.high")
    assert (queue.is_paused(database_now()), queue.paused_by, queue.paused_until) == (True, "otto", later)
    assert Execution.objects.get(pk=waits.pk).run_after == later
    assert workers.now_of("w@a")["drained_by"] == "otto"


def waiting(count: int) -> list[Execution]:
    enqueue_many("probe", [NewExecution(f"waits{n}") for n in range(count)])
    return list(Execution.objects.filter(key__startswith="waits"))


def test_a_person_who_gets_another_name_continues_and_nobody_continues_by_a_name_taken_over() -> None:
    some_failed(6)
    otto = an_operator("otto")
    first, second = begun_by(otto), begun_by(an_operator("bea"), "priority")
    User.objects.filter(username="otto").update(username="otto-meier")
    User.objects.filter(username="bea").delete()
    User.objects.filter(pk=an_operator("carl").pk).update(username="bea")
    run_all()
    assert bulk.get_or_error(first.pk).state == ActionState.DONE
    check_stopped(second, "the account bea that started it is gone")


@pytest.mark.parametrize("through", ["admin", "api"])
def test_an_action_started_on_a_page_or_by_a_program_has_its_account(client: Client, through: str) -> None:
    some_failed(6)
    otto = an_operator("otto")
    if through == "admin":
        client.force_login(otto)
        client.post(reverse("admin:bulk_new"), {"verb": "retry", "state": "failed", "reason": "x"})
    else:
        _, secret = api_tokens.make("ci", otto, ["operate"], Actor("ann", "command"))
        sent = {"verb": "retry", "filters": {"state": "failed"}}
        headers = {"Authorization": f"Bearer {secret}"}
        kind = "application/json"
        made = client.post("/api/v1/bulk-actions", sent, kind, headers=headers).json()
        client.post(f"/api/v1/bulk-actions/{made['id']}/start", {}, kind, headers=headers)
    action = BulkAction.objects.get()
    assert (action.state, action.user_id, action.source) == (ActionState.RUNNING, otto.pk, through)
    assert (action.token_id is None) == (through == "admin")
