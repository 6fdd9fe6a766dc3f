"""Limits and retry policies from a terminal, probes with every property, and queues that are full."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from queuemgr import Work
from queuemgr.base.limit_shorthand import daily_budget, starts
from queuemgr.base.rate import Rate
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.models import AllowanceUsage, AuditEntry, Execution, Limit, RetryPolicy
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import breakers, limit_rows
from tests.integration.cli.commands import queue
from tests.integration.conftest import rule_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _limits_and_nothing_sent(transactional_db: None, sent: list[Any]) -> None:
    limit_rows.sync()


def test_a_limit_is_shown_with_its_usage_and_the_work_waiting_on_it(played: Any, probes: Any) -> None:
    played(slots=4)
    controls.edit_limit("host:a", Actor("ann", "test"), max_running=1, daily_budget=200)
    probes(3, limit_key="host:a", requests=1)
    (found,) = queue("limit", "host:a", "--json").records
    assert (found["running"], found["max_running"], found["reserved"]) == (1, 1, 1)
    assert (found["defined_by"], found["share"], found["breaker_after"]) == ("host:a", 1, 10)
    (waits,) = found["waiting_on_it"]
    assert waits == {"limit": "host:a", "reason": "host:a 1/1", "waiting": 2, "until": None}
    output = queue("limit", "host:a").out
    assert "max running" in output and "host:a 1/1" in output


def test_a_key_without_a_row_shows_the_fields_of_its_pattern_until_it_gets_its_own() -> None:
    (found,) = queue("limit", "host:new.org:443", "--json").records
    assert (found["defined_by"], found["max_running"]) == ("host:*", 4)
    result = queue("limit", "host:new.org:443", "--rate", "1/3s burst 2", "--reason", "asked to")
    assert result.out == (
        "host:new.org:443: rate=1/3s burst 2 (a new row, with the other fields copied from host:*)\n"
    )
    row = Limit.objects.get(name="host:new.org:443")
    assert (row.rate, row.max_running) == ("1/3s burst 2", 4)
    assert AuditEntry.objects.get().reason == "asked to"


def test_a_budget_with_its_zone_and_percents_is_an_allowance_until_it_is_removed() -> None:
    result = queue(
        "limit", "fleet", "--rate", "50/s", "--daily-budget", 500, "--budget-zone", "Europe/Berlin",
        "--reserved-for-high-percent", 5, "--blocked-for-low-percent", 20,
    )  # fmt: skip
    assert result.code == 0
    assert rule_of("fleet").budget == daily_budget(500, "Europe/Berlin", high=5, low=20)
    assert rule_of("fleet").rate == starts(Rate(0.02))
    assert queue("limit", "fleet", "--daily-budget", "none", "--rate", "").code == 0
    assert (rule_of("fleet").budget, rule_of("fleet").rate) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("cpu", "--allowances", "5 tokens/day"), "A resource counts what runs, not what that uses"),
        (("perp",), "no limit is called 'perp'; there are: cpu, "),
        (("phase:perp", "--max-running", "3"), "no limit is called 'phase:perp'; did you mean 'phase:prep'?"),
        (("phase:perp", "--max-running", "3", "--new"), "'phase:perp' is not a limit's name. Valid are: "),
        (("hots:*", "--rate", "1/s"), "did you mean 'host:*'?"),
        (("hots:x", "--rate", "1/s"), "; --new makes a limit of this name all the same"),
        (("fleet", "--max-running", "many"), "fleet.max_running=many: “many” value must be an integer"),
        (("fleet", "--rate", "fast"), "fleet.rate: rate 'fast' is not understood; write it like"),
        (("fleet", "--budget-zone", "Mars"), "fleet.budget_zone: time zone 'Mars' is not known"),
        (("fleet", "--reserved-for-high-percent", "120"), "fleet.reserved_for_high_percent=120: Ensure"),
        (("fleet", "--reserved-high", "999"), "fleet.reserved_high: reserved_high must be smaller"),
    ],
)  # fmt: skip
def test_invalid_fields_are_refused_by_name_and_change_nothing(
    arguments: tuple[str, ...], error: str
) -> None:
    before = list(Limit.objects.values())
    result = queue("limit", *arguments)
    assert (result.code, result.out) == (3, "")
    assert error in result.error
    assert list(Limit.objects.values()) == before


def test_times_in_a_limit_s_fields_are_shown_with_seconds_and_zone() -> None:
    assert re.search(r"resets at +\d{4}-\d\d-\d\d 00:00:00 UTC\n", queue("limit", "fleet").out)


def test_the_table_of_limits_shows_rates_budgets_breakers_and_pauses(probes: Any) -> None:
    breakers.open_breaker("host:a", database_now().replace(year=2099), "429, Retry-After 30 s")
    queue("pause", "prep", "--reason", "moving")
    assert queue("limit", "wrap", "--rate", "1/3s").out == "phase:wrap: rate=1/3s\n"
    output = queue("limits").out
    assert "throttled until 2099-" in output and "(429, Retry-After 30 s)" in output
    assert ": moving" in output and "of 10,000 per day, resets" in output
    by_name = {found["limit"]: found for found in queue("limits", "--json").records}
    assert by_name["host:a"]["open_reason"] == "429, Retry-After 30 s"
    assert by_name["phase:prep"]["paused"].endswith(": moving")
    assert queue("stats").out.count("429, Retry-After 30 s") == 1


def test_a_policy_is_shown_as_its_resulting_delays(probes: Any) -> None:
    (found,) = queue("policy", "network", "--json").records
    assert (found["max_attempts"], found["phase"]) == (6, None)
    assert found["waits"][0] == {"before_attempt": 2, "shortest": 5, "longest": 10}
    assert [wait["shortest"] for wait in found["waits"]] == [5, 10, 20, 40, 80]
    output = queue("policy", "network").out
    assert "at most 6 attempts" in output and "80 s" in output and "85 s" in output
    assert "never retried" in queue("policy", "not_found").out


def test_a_policy_for_one_phase_starts_from_the_general_one_and_is_recorded() -> None:
    result = queue(
        "policy", "network", "--phase", "wrap", "--max-attempts", 2, "--base", 1.5, "--jitter", 0,
        "--reason", "short",
    )  # fmt: skip
    assert result.code == 0
    policy = RetryPolicy.objects.get(kind="network", phase="wrap")
    assert (policy.max_attempts, policy.base, policy.ceiling) == (2, 1.5, 600)
    assert AuditEntry.objects.get().reason == "short"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("netwrok",), "no error kind is called 'netwrok'; there are: bad_answer"),
        (("network", "--phase", "perp"), "no phase is called 'perp'; there are: prep"),
        (("network", "--base", "soon"), "network.base=soon: “soon” value must be a float"),
        (("network", "--max-attempts", "0"), "network: max_attempts is at least 1, delays at least 0"),
        (("network", "--base", "900"), "network: max_attempts is at least 1, delays at least 0, the ceiling"),
    ],
)
def test_invalid_policies_are_refused(arguments: tuple[str, ...], error: str) -> None:
    result = queue("policy", *arguments)
    assert (result.code, result.out) == (3, "")
    assert error in result.error


def test_probes_accept_a_tenant_a_weight_resources_and_a_delay() -> None:
    result = queue(
        "enqueue", "--flow", "probe", "--key-prefix", "x", "--tenant", "acme", "--weight", 2,
        "--resources", "cpu=2,memory=1", "--fail", "rate_limited", "--retry-after", 30,
    )  # fmt: skip
    assert result.out == "1 new, 0 already there\n"
    one = Execution.objects.get(key="x-0")
    assert one.payload == {
        "phase": "prep", "fail": "rate_limited", "tenant": "acme", "weight": 2,
        "resources": {"cpu": 2, "memory": 1}, "retry_after": 30,
    }  # fmt: skip
    assert (one.route.limit_keys, one.route.weight, one.route.resources) == (
        "tenant:acme", 2, "cpu=2 memory=1",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--resources", "cpu"), "'cpu' is invalid; format: cpu=2,memory=1"),
        (("--resources", "cpu=0"), "'0' is not a whole number of at least 1"),
        (("--weight", "0"), "'0' is not a whole number of at least 1"),
        (("--retry-after", "soon"), "'soon' is not a number above 0"),
        (("--weight", "999"), "weight 999 is above max_running=200 of limit 'fleet'"),
        (("--tenant", "a b"), "has white space in it"),
    ],
)
def test_invalid_probes_are_refused(arguments: tuple[str, ...], error: str) -> None:
    result = queue("enqueue", "--flow", "probe", *arguments)
    assert error in result.error
    assert (result.code != 0, Execution.objects.exists()) == (True, False)


def test_enqueue_into_a_full_queue_reports_what_was_enqueued_and_fails() -> None:
    controls.edit_queue("prep.normal", Actor("ann", "test"), max_pending=3)
    result = queue("enqueue", "--flow", "probe", "--count", 5)
    assert (result.code, result.out, Execution.objects.count()) == (3, "", 3)
    assert result.error.startswith(
        "queue prep.normal is full: 3 wait, its max_pending is 3; 3 were enqueued before"
    )


def test_an_import_that_fills_the_queue_reports_what_was_enqueued_of_the_whole_file(tmp_path: Path) -> None:
    controls.edit_queue("prep.normal", Actor("ann", "test"), max_pending=700)
    items = tmp_path / "items"
    items.write_text("bad\n" + "".join(f"10.1000/{n}\n" for n in range(1200)))
    result = queue("import", items)
    assert (result.code, Execution.objects.count()) == (3, 700)
    assert "is full" in result.error and "; 700 were enqueued before" in result.error
    assert result.lines[0].startswith("line 1: ")


def test_allowances_are_shown_with_what_is_used_and_reserved_and_when_they_begin_anew(
    played: Any, probes: Any
) -> None:
    text = "6000 tokens/minute; 0.02 usd/day"
    assert queue("limit", "openai:gpt", "--allowances", text, "--new").code == 0
    assert "allowances" in queue("limits").out
    worker = played(slots=2)
    probes(1, limit_key="openai:gpt", uses={"tokens": 950, "usd": 0.011})
    (grant,) = worker.begin_all()
    Work(grant, AbortSignal()).spend(tokens=1000, usd=0.012)
    (found,) = queue("limit", "openai:gpt", "--json").records
    minute, day = found["allowances"]
    assert (minute["name"], minute["amount"], minute["resets_at"]) == ("tokens/minute", 6000, None)
    assert minute["full_at"] and 0 < minute["used"] <= 950 and minute["left"] == 6000 - minute["used"]
    assert (day["allowance"], day["scale"], day["full_at"]) == ("0.02 usd/day", 1_000_000, None)
    assert (day["used"], day["reserved"], day["left"]) == (0, 12_000, 8_000)
    assert day["may_exceed_by"] is None, "the step may use more than it reserved"
    worker.end(grant, next_too=False)
    (found,) = queue("limit", "openai:gpt", "--json").records
    day = found["allowances"][1]
    assert (day["used"], day["reserved"], day["may_exceed_by"]) == (12_000, 0, 0)
    assert "usd 0.012 of 0.02 per day, resets " in queue("limits").out
    assert re.search(r"0.02 usd/day +0.012 +0.00 +0.008 +\d{4}-", queue("limit", "openai:gpt").out)


def test_what_a_key_of_a_pattern_spent_is_shown_when_nothing_runs_under_it(played: Any, probes: Any) -> None:
    queue("limit", "tenant:*", "--allowances", "0.02 usd/day", "--new")
    worker = played(slots=2)
    probes(1, tenant="acme", uses={"usd": 0.011})
    (grant,) = worker.begin_all()
    Work(grant, AbortSignal()).spend(usd=0.05)
    worker.end(grant, next_too=False)
    (found,) = queue("limit", "tenant:acme", "--json").records
    (day,) = found["allowances"]
    assert (day["used"], day["left"], day["may_exceed_by"]) == (50_000, 0, 30_000)
    assert day["text"].startswith("usd 0.05 of 0.02 per day, 0.03 too much, resets ")
    assert "0.02 usd/day each" in queue("limits").out


def test_of_several_allowances_the_list_shows_the_one_nearest_its_end() -> None:
    queue("limit", "openai:gpt", "--allowances", "9 tokens/day; 4 usd in total; 5 tokens/minute", "--new")
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    AllowanceUsage.objects.create(limit="openai:gpt", allowance="usd/total", starts_at=epoch, spent=3_000_000)
    listed = queue("limits").out
    assert "usd 3.00 of 4.00 in total" in listed and "+2 more" in listed
    assert "tokens" not in listed


def test_allowances_that_this_release_cannot_read_are_shown_as_such() -> None:
    Limit.objects.create(name="openai:gpt", allowances="<b>; 9 parsecs/day")
    (found,) = queue("limit", "openai:gpt", "--json").records
    assert [each["text"] for each in found["allowances"]] == [
        "an allowance of something that this release does not know",
        "an allowance of parsecs that this release does not know",
    ]
    assert "an allowance of something" in queue("limits").out and queue("limit", "openai:gpt").code == 0
