"""Limits, queues, pauses and stats through the API: the verbs of the commands, recorded alike."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import AuditEntry, Limit, LimitState, Queue
from queuemgr.reporting.stats import stats as current_stats
from queuemgr.scheduling import limit_rows
from tests.integration.web.api.api_client import Api, api, problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]


@pytest.fixture
def caller() -> Api:
    limit_rows.sync()
    return api()


def test_a_limit_shows_its_fields_usage_and_what_waits_on_it(caller: Api) -> None:
    enqueue("probe", "a", {"limit_key": "host:a"})
    caller.post("pause", {"target": "host:a", "reason": "they asked"})
    found = caller.get("limits/host:a").json()
    assert (found["limit"], found["defined_by"], found["max_running"]) == ("host:a", "host:a", 4)
    (waits,) = found["waiting_on_it"]
    assert (waits["waiting"], "they asked" in waits["reason"]) == (1, True)
    names = {one["limit"] for one in caller.get("limits").json()["limits"]}
    assert {"fleet", "phase:prep", "host:*", "host:a"} <= names


def test_given_fields_are_set_and_recorded_and_the_others_stay(caller: Api) -> None:
    body = {"max_running": 7, "rate": "10/m burst 3", "reason": "a new contract"}
    edited = caller.patch("limits/host:b", body).json()
    assert (edited["max_running"], edited["rate"], edited["breaker_after"]) == (7, "10/m burst 3", 10)
    change = AuditEntry.objects.get(action="edit limit")
    assert (change.source, change.reason, change.target) == ("api", "a new contract", "host:b")
    assert caller.patch("limits/fleet", {"daily_budget": None}).json()["daily_budget"] is None


def test_allowances_are_set_and_shown_as_whole_numbers_of_their_meters(caller: Api) -> None:
    text = "30000 tokens/minute; 20 usd/day in Europe/Berlin"
    edited = caller.patch("limits/openai:gpt", {"allowances": text, "new": True}).json()
    minute, day = edited["allowances"]
    assert (minute["allowance"], minute["left"], minute["full_at"]) == ("30,000 tokens/minute", 30_000, None)
    assert (day["meter"], day["amount"], day["scale"]) == ("usd", 20_000_000, 1_000_000)
    assert day["resets_at"] and day["may_exceed_by"] == 0
    listed = {one["limit"]: one for one in caller.get("limits").json()["limits"]}
    assert [each["name"] for each in listed["openai:gpt"]["allowances"]] == ["tokens/minute", "usd/day"]


def test_what_would_be_with_other_allowances_is_said_and_changes_nothing(caller: Api) -> None:
    Limit.objects.filter(name="tenant:*").update(allowances="90 tokens in total")
    for key in ("a", "b"):
        enqueue("probe", key, {"limit_key": f"tenant:{key}", "uses": {"tokens": 5 if key == "a" else 50}})
    before = list(Limit.objects.order_by("pk").values())
    changes = {"changes": ["tenant:*.tokens/total=9", "fleet.allowances=1 usd/day"]}
    found = caller.post("what-if", changes).json()
    assert [each["limit"] for each in found["limits"]] == ["tenant:a", "tenant:b", "fleet"]
    (was,), (would,) = (found["limits"][1][name] for name in ("as_is", "changed"))
    assert (was["amount"], was["forecast"]["waiting"], was["forecast"]["never"]) == (90, 50, 0)
    assert (would["amount"], would["forecast"]["waiting"], would["forecast"]["never"]) == (9, 0, 50)
    assert found["replay"] is None and list(Limit.objects.order_by("pk").values()) == before
    assert (
        "no allowance is called"
        in problem(caller.post("what-if", {"changes": ["fleet.usd/week=3"]}), "invalid")["detail"]
    )
    assert (
        "nothing was recorded"
        in problem(caller.post("what-if", changes | {"since": "2h"}), "invalid")["detail"]
    )
    reader = api("read", permissions=["view_limit"], name="reader")
    assert reader.post("what-if", changes).status_code == 200
    assert reader.post("what-if", changes | {"since": "2h"}).status_code == 403


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("fleet", {}),
        ("fleet", {"max_running": None}),
        ("fleet", {"max_running": -1}),
        ("fleet", {"max_running": 2**31}),
        ("fleet", {"max_running": 3, "reserved_high": 3}),
        ("fleet", {"rate": "often"}),
        ("fleet", {"allowances": "30 coins/day"}),
        ("fleet", {"budget_zone": "Mars/Base"}),
        ("fleet", {"reserved_for_high_percent": 101}),
        ("fleet", {"spent": 0}),
        ("flet", {"max_running": 3}),
        ("hots:a", {"max_running": 3}),
    ],
)
def test_invalid_fields_are_422_and_change_nothing(caller: Api, name: str, body: dict[str, Any]) -> None:
    before = list(Limit.objects.order_by("pk").values())
    problem(caller.patch(f"limits/{name}", body), "invalid")
    assert list(Limit.objects.order_by("pk").values()) == before
    assert not AuditEntry.objects.filter(source="api").exists()


def test_a_mistyped_limit_is_made_only_where_it_is_said_to_be_new(caller: Api) -> None:
    refused = problem(caller.patch("limits/hots:a", {"max_running": 3}), "invalid")
    assert "did you mean 'host:a'?" in refused["detail"] and '"new": true makes it' in refused["detail"]
    assert problem(caller.post("pause", {"target": "hots:a"}), "invalid")
    assert caller.patch("limits/hots:a", {"max_running": 3, "new": True}).json()["max_running"] == 3
    assert caller.post("pause", {"target": "stmp:a", "new": True}).json()["paused"] is True


def test_an_unknown_limit_is_404(caller: Api) -> None:
    assert "fleet" in problem(caller.get("limits/flet"), "not-found")["detail"]


def test_breakers_are_reset_by_name_or_pattern(caller: Api) -> None:
    later = database_now() + timedelta(hours=1)
    for name in ("host:a", "host:b", "fleet"):
        LimitState.objects.create(name=name, open_until=later, open_reason="429")
    assert caller.post("limits/reset-breaker", {"limits": ["host:*"]}).json() == {
        "closed": ["host:a", "host:b"]
    }
    assert LimitState.objects.get(name="fleet").open_until == later


@pytest.mark.parametrize("target", ["everything", "prep.low", "prep", "host:a"])
def test_a_pause_lasts_until_it_is_resumed(caller: Api, target: str) -> None:
    assert caller.post("pause", {"target": target}).json() == {"target": target, "paused": True}
    rows = [*Queue.objects.filter(paused_at__isnull=False), *Limit.objects.filter(paused_at__isnull=False)]
    assert len(rows) == 1
    assert caller.post("resume", {"target": target}).json()["paused"] is False
    assert not Queue.objects.filter(paused_at__isnull=False).exists()
    assert not Limit.objects.filter(paused_at__isnull=False).exists()


def test_a_pause_of_an_unknown_target_or_until_the_past_is_refused(caller: Api) -> None:
    problem(caller.post("pause", {"target": "nothing"}), "invalid")
    past = {"target": "prep.low", "until": "2020-01-01T00:00:00Z"}
    assert "passed" in problem(caller.post("pause", past), "invalid")["detail"]


def test_the_permission_to_pause_queues_does_not_allow_pausing_limits() -> None:
    limit_rows.sync()
    caller = api(permissions=["view_queue", "pause_queue"])
    assert caller.post("pause", {"target": "prep.low"}).status_code == 200
    refused = problem(caller.post("pause", {"target": "everything"}), "permission-missing")
    assert refused["permission"] == "queuemgr.pause_limit"


def test_queues_show_what_waits_and_their_caps_can_be_set(caller: Api) -> None:
    enqueue("probe", "a")
    by_name = {queue["queue"]: queue for queue in caller.get("queues").json()["queues"]}
    assert (by_name["prep.normal"]["waiting"], by_name["prep.high"]["waiting"]) == (1, 0)
    edited = caller.patch("queues/prep.normal", {"max_pending": 5}).json()
    assert (edited["max_pending"], edited["waiting"]) == (5, 1)
    problem(caller.patch("queues/nowhere", {"max_pending": 5}), "not-found")


def test_stats_are_those_of_the_command(caller: Api) -> None:
    enqueue("probe", "a")
    reported, stats = caller.get("stats").json(), current_stats()
    assert set(reported) == set(stats)
    assert reported["statuses"] == {"pending": 1}
    assert {limit["limit"] for limit in reported["limits"]} == {one["limit"] for one in stats["limits"]}
