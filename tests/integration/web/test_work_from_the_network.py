"""Whatever way work is enqueued through the network, or from a file of somebody else, it takes no payload
that only a command may give, and no key of a schedule's run or a callback; and who enqueues may enqueue."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Batch, Execution, Schedule, ScheduledRun, State
from queuemgr.operations import batches, remote_work, schedules
from queuemgr.schedules import fire, new_runs
from queuemgr.scheduling import limit_rows
from queuemgr.worker import probe_flow
from tests.integration.cli.commands import queue
from tests.integration.web.admin.admin_pages import page
from tests.integration.web.api.api_client import ANN, Api, api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root", "sent")]

Way = Callable[[Api, Client, Path, dict[str, Any]], Any]


@pytest.fixture(autouse=True)
def _limits(sent: list[Any]) -> None:
    limit_rows.sync()


@pytest.fixture
def superuser_client() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def failed() -> Execution:
    enqueue("probe", "failed", {"tenant": "a"})
    ended = {"state": State.FAILED, "finished_at": database_now(), "route": None, "error_kind": "not_found"}
    Execution.objects.update(**ended)
    return Execution.objects.get()


def scheduled() -> Schedule:
    return schedules.create("nightly", "probe", "every 1d", ANN)


NEW = {
    "schedule": "x", "name": "x", "flow": "probe", "timing": "every 1h", "priority": 1, "misfire": "skip",
    "misfire_limit": 1, "overlap": "skip", "jitter": 0, "reason": "why",
}  # fmt: skip


def add_members(robot: Api, payload: dict[str, Any], key: str = "k") -> Any:
    batches.open_batch("night", "probe", None)
    return robot.post("batches/night/add", {"items": [{"key": key, "payload": payload}]})


def import_line(file: Path, line: dict[str, Any]) -> Any:
    file.write_text(json.dumps({"flow": "probe", **line}))
    return queue("failed", "import", file)


WAYS: dict[str, Way] = {
    "enqueue": lambda robot, client, file, payload: robot.post(
        "executions", {"flow": "probe", "key": "k", "payload": payload}
    ),
    "enqueue many": lambda robot, client, file, payload: robot.post(
        "executions/many", {"flow": "probe", "items": [{"key": "k", "payload": payload}]}
    ),
    "add to a batch": lambda robot, client, file, payload: add_members(robot, payload),
    "callback": lambda robot, client, file, payload: robot.post(
        "batches", {"name": "b", "flow": "probe", "on_complete": {"flow": "probe", "payload": payload}}
    ),
    "retry": lambda robot, client, file, payload: robot.post(
        f"executions/{failed().pk}/retry", {"payload": payload}
    ),
    "schedule": lambda robot, client, file, payload: robot.post(
        "schedules", {"schedule": "x", "flow": "probe", "timing": "every 1h", "payload": payload}
    ),
    "edit of a schedule": lambda robot, client, file, payload: robot.patch(
        f"schedules/{scheduled().name}", {"payload": payload}
    ),
    "page of a new schedule": lambda robot, client, file, payload: client.post(
        reverse("admin:queuemgr_schedule_add"), NEW | {"payload": json.dumps(payload)}
    ),
    "page of a schedule's payload": lambda robot, client, file, payload: client.post(
        reverse("admin:schedule_payload", args=[scheduled().pk]), {"payload": json.dumps(payload)}
    ),
    "page of an execution": lambda robot, client, file, payload: client.post(
        page("execution", failed().pk, view="action"),
        {"act": "retry_with_payload", "payload": json.dumps(payload), "reason": "why"},
    ),
    "line of a failure": lambda robot, client, file, payload: import_line(
        file, {"key": failed().key, "payload": payload}
    ),
    "line of work not known here": lambda robot, client, file, payload: import_line(
        file, {"key": "unknown", "payload": payload}
    ),
}
LOCAL = [{"trace": "/tmp/written-by-a-stranger"}, {"die": True}, {"trace": "/tmp/x", "die": 1, "tenant": "b"}]


def stored_payloads() -> list[dict[str, Any]]:
    rows = (Execution.objects.all(), Schedule.objects.all(), Batch.objects.none())
    return [row.payload for some in rows for row in some]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("payload", LOCAL, ids=lambda payload: ",".join(payload))
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_way_from_elsewhere_gives_a_payload_that_acts_on_a_machine(
    way: Way, payload: dict[str, Any], superuser_client: Client, tmp_path: Path
) -> None:
    way(api(), superuser_client, tmp_path / "lines", payload)
    assert not any(remote_work.OF_A_MACHINE & stored.keys() for stored in stored_payloads())
    assert not Batch.objects.filter(callbacks__payload__has_any_keys=[*remote_work.OF_A_MACHINE]).exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_each_of_these_ways_takes_another_payload(way: Way, superuser_client: Client, tmp_path: Path) -> None:
    way(api(), superuser_client, tmp_path / "lines", {"tenant": "given"})
    callbacks = [callback.payload for batch in Batch.objects.all() for callback in batch.callbacks.all()]
    assert {"tenant": "given"} in [*stored_payloads(), *callbacks]


def test_every_option_of_a_probe_is_one_that_anybody_may_give_or_none_but_a_command() -> None:
    tree = ast.parse(inspect.getsource(probe_flow))
    asked = {
        str(call.args[0].value)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "get"
        and call.args and isinstance(call.args[0], ast.Constant)
    }  # fmt: skip
    assert asked == set(remote_work.Probe.model_fields) | remote_work.OF_A_MACHINE


KEYS = ("schedule:nightly@2026-12-01T03:00:00Z", "schedule:", "batch:1:on_complete", "batch:999:x")
KEYED: dict[str, Callable[[Api, str], Any]] = {
    "enqueue": lambda robot, key: robot.post("executions", {"flow": "probe", "key": key}),
    "enqueue many": lambda robot, key: robot.post(
        "executions/many", {"flow": "probe", "items": [{"key": "fine"}, {"key": key}]}
    ),
    "add to a batch": lambda robot, key: add_members(robot, {}, key),
    "callback": lambda robot, key: robot.post(
        "batches", {"name": "b", "flow": "probe", "on_failure": {"flow": "probe", "key": key}}
    ),
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("way", KEYED.values(), ids=KEYED)
def test_keys_that_schedules_and_batches_give_are_refused(way: Callable[[Api, str], Any], key: str) -> None:
    assert way(api(), key).status_code == 422
    assert not Execution.objects.exists()


def test_a_run_whose_key_somebody_took_is_left_out_and_says_so() -> None:
    row = scheduled()
    assert row.next_due_at is not None
    key = new_runs.key_of(row.name, row.next_due_at)
    enqueue("probe", key, {"tenant": "another"})
    assert fire.run_due(row.next_due_at) == 0
    run = ScheduledRun.objects.get()
    assert (run.outcome, run.execution_id) == ("skipped", None)
    assert key in run.reason


ENQUEUES: dict[str, tuple[str, Callable[[Api], Any]]] = {
    "schedule": (
        "add_schedule",
        lambda robot: robot.post("schedules", {"schedule": "x", "flow": "probe", "timing": "every 1h"}),
    ),
    "callback": (
        "add_batch",
        lambda robot: robot.post(
            "batches", {"name": "b", "flow": "probe", "on_success": {"flow": "probe", "key": "k"}}
        ),
    ),
    "add to a batch": ("add_batch", lambda robot: add_members(robot, {})),
}


@pytest.mark.parametrize(("right", "way"), ENQUEUES.values(), ids=ENQUEUES)
def test_whoever_may_not_enqueue_does_so_through_nothing_else(right: str, way: Callable[[Api], Any]) -> None:
    refused = way(api(permissions=[right, "view_batch", "view_schedule"]))
    assert (refused.status_code, refused.json()["permission"]) == (403, "queuemgr.add_execution")
    assert not (Execution.objects.exists() or Schedule.objects.exists())


def test_a_token_without_the_scope_makes_no_schedule_and_a_page_without_the_permission_neither(
    staff: Callable[..., Client],
) -> None:
    sent = {"schedule": "x", "flow": "probe", "timing": "every 1h"}
    assert api("limits", "operate").post("schedules", sent).json()["scope"] == "enqueue"
    client = staff("add_schedule", "view_schedule")
    assert client.post(reverse("admin:queuemgr_schedule_add"), NEW | {"payload": "{}"}).status_code == 403
    assert not Schedule.objects.exists()


def test_a_flow_that_makes_keys_of_items_is_scheduled_from_a_machine_only(superuser_client: Client) -> None:
    assert (
        api().post("schedules", {"schedule": "x", "flow": "papers", "timing": "every 1h"}).status_code == 422
    )
    superuser_client.post(reverse("admin:queuemgr_schedule_add"), NEW | {"flow": "papers", "payload": "{}"})
    assert not Schedule.objects.exists()
