"""Schedules over the API: what is shown to whom, and what is changed."""

from __future__ import annotations

from typing import Any

import pytest

from queuemgr.models import AuditEntry, Execution, Schedule
from queuemgr.scheduling import limit_rows
from tests.integration.web.api.api_client import Api, api

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root", "sent")]


@pytest.fixture(autouse=True)
def _limits(sent: list[Any]) -> None:
    limit_rows.sync()


def made(caller: Api, name: str = "nightly", **more: Any) -> Any:
    wanted = {"schedule": name, "flow": "probe", "timing": "cron 30 3 * * * in Europe/Berlin", **more}
    return caller.post("schedules", wanted)


def test_a_schedule_is_made_shown_edited_paused_run_and_deleted() -> None:
    caller = api()
    created = made(caller, payload={"limit": "host:a"}, reason="asked for")
    assert created.status_code == 201, created.json()
    shown = caller.get("schedules/nightly").json()
    assert (len(shown["next_runs"]), shown["payload"], shown["by_code"]) == (10, {"limit": "host:a"}, False)
    edited = caller.patch("schedules/nightly", {"timing": "every 5m", "overlap": "queue one"}).json()
    assert (edited["timing"], edited["overlap"]) == ("every 5m from start", "queue one")
    assert (
        caller.post("schedules/pause", {"schedule": "nightly", "reason": "away"}).json()["state"] == "paused"
    )
    key = caller.post("schedules/run", {"schedule": "nightly"}).json()["key"]
    assert Execution.objects.get().key == key
    assert caller.post("schedules/resume", {"schedule": "nightly"}).json()["state"] == "in force"
    (listed,) = caller.get("schedules").json()["schedules"]
    assert (listed["schedule"], listed["last"]["outcome"]) == ("nightly", "enqueued")
    assert caller.post("schedules/delete", {"schedule": "nightly"}).json() == {"deleted": "nightly"}
    assert not Schedule.objects.exists()
    assert {entry.source for entry in AuditEntry.objects.exclude(action="create token")} >= {"api"}


def test_many_schedules_are_listed_page_by_page() -> None:
    caller = api()
    for number in range(5):
        made(caller, f"s{number}")
    first = caller.get("schedules", rows=3).json()
    rest = caller.get("schedules", rows=3, cursor=first["next"]).json()
    names = [row["schedule"] for page in (first, rest) for row in page["schedules"]]
    assert (names, rest["next"]) == (["s4", "s3", "s2", "s1", "s0"], None)


def test_payloads_and_changes_are_for_those_who_may() -> None:
    made(api(), payload={"limit": "host:secret"})
    reader = api("read", name="reader")
    assert reader.get("schedules/nightly").json()["payload"] is None
    for path, body in (
        ("schedules", {"schedule": "x", "flow": "probe", "timing": "every 5m"}),
        ("schedules/run", {"schedule": "nightly"}),
        ("schedules/pause", {"schedule": "nightly"}),
        ("schedules/delete", {"schedule": "nightly"}),
    ):
        assert reader.post(path, body).status_code == 403, path
    editor = api("limits", name="editor")
    refused = editor.patch("schedules/nightly", {"payload": {}})
    assert (refused.status_code, refused.json()["scope"]) == (403, "payload")
    assert editor.patch("schedules/nightly", {"jitter": 60}).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"timing": "sometimes"}, 422),
        ({"timing": None}, 422),
        ({"jitter": -1}, 422),
        ({"priority": "urgent"}, 422),
        ({"name": "x"}, 422),
    ],
)
def test_what_is_wrong_is_refused(body: dict[str, Any], status: int) -> None:
    caller = api()
    made(caller)
    assert caller.patch("schedules/nightly", body).status_code == status
    assert caller.patch("schedules/unknown", {"jitter": 5}).status_code == 404
    assert made(caller).status_code in (409, 422)


def test_a_repeated_request_with_a_key_runs_it_once() -> None:
    caller = api()
    made(caller)
    answers = [
        caller.post("schedules/run", {"schedule": "nightly"}, Idempotency_Key="once").json() for _ in range(3)
    ]
    assert answers[0] == answers[1] == answers[2]
    assert Execution.objects.count() == 1
