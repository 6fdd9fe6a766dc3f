"""What an operator does with `manage.py queue`: what each command says, what it changes, and how it ends."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.first_word import answer_early
from queuemgr.cli.overview import COMMANDS, overview
from queuemgr.cli.subcommands import MODULES, load, load_all
from queuemgr.flows.flow import HIGH, all_queues
from queuemgr.flows.outcomes import Failed
from queuemgr.management.commands.queue import Command
from queuemgr.models import AuditEntry, Execution, Limit, Queue, State
from queuemgr.scheduling import limit_rows
from tests.integration.cli.commands import queue

pytestmark = pytest.mark.django_db(transaction=True)

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")


@pytest.fixture(autouse=True)
def _a_fleet_with_limits_that_sends_nothing(sent: list[Any]) -> None:
    limit_rows.sync()


# Help


def test_a_subcommand_is_found_without_importing_the_others() -> None:
    for name in load_all():
        assert set(load(name.split()[0])) == {
            other for other in load_all() if other.split()[0] == name.split()[0]
        }
    words = {name.split()[0]: load_all()[name].run for name in load_all()}
    for word, run in words.items():
        module = next((module for module, listed in MODULES.items() if word in listed), word)
        assert run is None or run.__module__ == f"queuemgr.cli.{module}"


def test_the_help_names_every_subcommand_once_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call_command("queue", "--help")
    output = capsys.readouterr().out
    listed = re.findall(r"^    ([a-z-]+) +\S.*$", output, re.MULTILINE)
    assert sorted(listed) == sorted(name for name in load_all() if " " not in name)
    assert re.findall(r"^(\S.*):$", output, re.MULTILINE)[-len(COMMANDS) :] == list(COMMANDS)
    assert max(len(line) for line in overview().splitlines()) <= 80


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["-h"], ["--help", "stats"], ["stast"], ["nothing-like-it", "--json"], [""]]
)
def test_what_is_answered_before_django_starts_is_what_the_command_would_answer(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answers = []
    for answer in (answer_early, Command().run_from_argv):
        with pytest.raises(SystemExit) as ended:
            answer(["manage.py", "queue", *words])
        answers.append((ended.value.code, capsys.readouterr()))
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    "words", [["stats"], ["--no-color", "stats"], ["--version"], ["--settings=x", "--help"]]
)
def test_every_other_command_line_is_left_to_django(words: list[str]) -> None:
    answer_early(["manage.py", "queue", *words])
    answer_early(["manage.py", *words])


def test_the_help_imports_no_subcommand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queuemgr.management.commands.queue.load", lambda word: pytest.fail(word))
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "queue", "--help"])
    assert ended.value.code == 0


def test_the_help_says_what_each_group_of_settings_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call_command("queue", "run", "--help")
    groups = re.findall(r"^settings \((.*)\):$", capsys.readouterr().out, re.MULTILINE)
    assert groups == ["the caps and time limits of the phases", "the settings of the queue itself"]


# Enqueue


def test_enqueue_reports_how_many_items_were_new_and_how_many_existed() -> None:
    assert queue("enqueue", "2101.00001", "10.1000/x").out == "2 new, 0 already there\n"
    assert queue("enqueue", "arXiv:2101.00001", "10.1000/y").out == "1 new, 1 already there\n"


def test_one_invalid_item_prevents_enqueueing_all_of_them() -> None:
    result = queue("enqueue", "2101.00001", "nonsense")
    assert (result.code, result.out) == (3, "")
    assert "'nonsense' cannot be used: give an arXiv id" in result.error
    assert not Execution.objects.exists()


def test_probes_take_every_option_there_is(tmp_path: Path) -> None:
    result = queue(
        "enqueue", "--flow", "probe", "--count", 3, "--seconds", 0.2, "--cpu-ms", 5, "--phase", "wrap",
        "--priority", "high", "--requests", 2, "--key-prefix", "x", "--limit-key", "host:a",
        "--trace", tmp_path / "trace", "--fail", "network", "--die",
    )  # fmt: skip
    assert result.out == "3 new, 0 already there\n"
    one = Execution.objects.get(key="x-2")
    assert (one.phase, one.priority, one.route.limit_keys, one.route.cost) == (
        "wrap", HIGH, "host:a", 2,
    )  # fmt: skip
    assert one.payload == {
        "seconds": 0.2, "cpu_ms": 5.0, "phase": "wrap", "requests": 2, "limit_key": "host:a",
        "trace": str(tmp_path / "trace"), "fail": "network", "die": True,
    }  # fmt: skip


def test_probes_without_a_prefix_never_collide_with_those_of_another_call() -> None:
    for _ in range(2):
        assert queue("enqueue", "--flow", "probe", "--count", 2).out == "2 new, 0 already there\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "no items given"),
        (("--flow", "probe", "x"), "probes take no items"),
        (("--flow", "papres", "x"), "no flow is called 'papres'; registered: papers, probe"),
        (("--flow", "probe", "--requests", "20000"), "above the allowance 10,000 requests/day"),
        (("--flow", "probe", "--count", "0"), "'0' is not a whole number of at least 1"),
        (("--flow", "probe", "--requests", "-1"), "'-1' is not a whole number of at least 0"),
        (("--flow", "probe", "--key-prefix", "k" * 300), "1 to 255 fit"),
        (("--priority", "urgent", "x"), "choose from 'high', 'normal', 'low'"),
        (("--flow", "probe", "--phase", "prepp"), "choose from 'prep', 'expensive', 'wrap'"),
    ],
)
def test_an_invalid_enqueue_is_refused_with_the_valid_form(arguments: tuple[str, ...], error: str) -> None:
    result = queue("enqueue", *arguments)
    assert error in result.error
    assert result.code != 0
    assert not Execution.objects.exists()


# Looking


def test_stats_use_stable_field_names(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    probes(3, phase="wrap", requests=1)
    worker.begin_all()
    (stats,) = queue("stats", "--json").records
    assert set(stats) == {
        "at", "total", "statuses", "queues", "limits", "budget", "workers", "waiting_on", "failures",
        "batches", "forecast",
    }  # fmt: skip
    assert TIME.fullmatch(stats["at"])
    assert (stats["total"], stats["statuses"]) == (3, {"analyzed": 2, "wrapping": 1})
    assert stats["queues"][0].pop("oldest_wait_seconds") >= 0
    assert stats["queues"] == [
        {"queue": "wrap.normal", "phase": "wrap", "priority": "normal",
         "waiting": 2, "due": 2, "leased": 0, "running": 1},
    ]  # fmt: skip
    assert stats["limits"][0].keys() == {
        "limit", "running", "max_running", "reserved_high", "rate", "daily_budget", "spent",
        "reserved", "resets_at", "paused", "paused_until", "open_until", "open_reason",
        "half_open_starts", "allowances", "provider",
    }  # fmt: skip
    budget = stats["budget"]
    assert (budget["budget"], budget["spent"], budget["reserved"]) == (10_000, 0, 1)
    assert budget.keys() == {"day", "zone", "budget", "spent", "reserved", "by_phase"}
    assert TIME.fullmatch(stats["workers"][0].pop("seen"))
    assert stats["workers"] == [
        {
            "worker": "w@test", "slots": 1, "busy": 1, "async_slots": 0, "async_busy": 0,
            "queues": all_queues(), "draining": False, "drained": "",
        }
    ]  # fmt: skip
    (stopped,) = stats["waiting_on"]
    assert stopped.keys() == {"limit", "reason", "waiting", "until"}
    assert stopped["waiting"] == 2


def test_plain_stats_show_every_section_without_trailing_blanks(played: Any, probes: Any) -> None:
    played(slots=1)
    probes(3)
    result = queue("stats")
    for heading in ("Executions", "Queues", "Limits", "Budget", "Workers", "Waiting on", "Forecast"):
        assert re.search(rf"^{heading}", result.out, re.MULTILINE)
    assert all(line == line.rstrip() for line in result.lines)


def test_attempts_use_stable_field_names_and_times_in_microseconds(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    probes(1, priority=HIGH, limit_key="host:a", requests=3)
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("network", "reset"))
    (record,) = queue("attempts", "--json").records
    times = {name: record.pop(name) for name in ("leased", "started", "ended")}
    assert all(TIME.fullmatch(time) for time in times.values())
    assert list(times.values()) == sorted(times.values())
    assert record == {
        "key": "p0", "flow": "probe", "phase": "prep", "step": "probe", "priority": "high",
        "limit_key": "host:a", "worker": "w@test", "outcome": "retried", "error_kind": "network",
        "error_message": "reset", "requests": 3, "lease": str(grant.lease_id),
    }  # fmt: skip


def test_attempts_are_listed_in_order_and_can_be_filtered(played: Any, probes: Any) -> None:
    worker = played(slots=2)
    probes(2)
    one, two = worker.begin_all()
    worker.end(one)
    worker.end(two, Failed("not_found", "404"))
    assert [r["key"] for r in queue("attempts", "--json").records] == [one.key, two.key]
    assert [r["key"] for r in queue("attempts", "--json", "--outcome", "failed").records] == [two.key]
    assert queue("attempts", "--json", "--key", "none").out == ""
    first, second = queue("attempts", "--flow", "probe").lines
    assert first.endswith(f"done  w@test  {one.lease_id}")
    assert second.endswith(f"failed  w@test  {two.lease_id}  not_found  404")
    assert "choose from 'done', 'skipped'" in queue("attempts", "--outcome", "good").error


def test_show_prints_the_status_of_an_execution_and_every_attempt(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("network", "connection reset"))
    result = queue("show", "p0")
    assert re.search(r"^status +pending$", result.out, re.MULTILINE)
    assert re.search(r"^why +not before .* \(attempt 2 of 6 after network\)$", result.out, re.MULTILINE)
    assert "retried" in result.out and "connection reset" in result.out
    (shown,) = queue("show", "p0", "--json").records
    assert (shown["key"], shown["status"], shown["error_kind"]) == ("p0", "pending", "network")
    assert TIME.fullmatch(shown["created"])
    assert [a["outcome"] for a in shown["attempts"]] == ["retried"]


def test_why_says_in_a_sentence_what_work_waits_for(played: Any, probes: Any) -> None:
    played(slots=1)
    queue("pause", "prep", "--reason", "moving")
    probes(1)
    result = queue("why", "p0")
    assert re.fullmatch(r"phase:prep paused by \S+: moving", result.lines[0])
    assert re.fullmatch(
        r"position 1 in prep.normal; no start to expect: phase:prep paused by \S+: moving", result.lines[1]
    )


REASONS = {"cancel": ("--reason", "x")}


@pytest.mark.parametrize("command", ["show", "why", "cancel"])
def test_an_unknown_key_is_refused_by_name(command: str) -> None:
    result = queue(command, "nobody")
    assert (result.code, result.error) == (3, "no execution has the key 'nobody'")


@pytest.mark.parametrize("command", ["show", "why", "cancel"])
def test_a_key_that_two_flows_share_needs_the_option_flow(command: str, probes: Any) -> None:
    queue("enqueue", "10.1000/x")
    probes(1, prefix="doi:10.1000/x")
    Execution.objects.filter(flow="probe").update(key="doi:10.1000/x")
    result = queue(command, "doi:10.1000/x")
    assert (result.code, "choose one with --flow" in result.error) == (3, True)
    assert queue(command, "doi:10.1000/x", "--flow", "probe", *REASONS.get(command, ())).code == 0


def test_times_are_in_utc_whatever_the_time_zone_of_the_reader() -> None:
    (stats,) = queue("stats", "--json").records
    assert datetime.fromisoformat(stats["at"]).utcoffset() == timedelta(0)


# Changing


def test_retry_failed_has_a_dry_run_and_can_be_limited_to_an_error_kind(played: Any, probes: Any) -> None:
    worker = played(slots=2)
    probes(2)
    one, two = worker.begin_all()
    worker.end(one, Failed("not_found", "404"), next_too=False)
    worker.end(two, Failed("encrypted", "requires a password"), next_too=False)
    look = queue("retry-failed", "--kind", "encrypted", "--dry-run")
    assert look.lines == [
        "1 would be retried", f"  probe/{two.key}  encrypted: requires a password",
    ]  # fmt: skip
    assert Execution.objects.failed().count() == 2
    assert queue("retry-failed", "--kind", "encrypted", "--reason", "mended").out == "1 retried\n"
    assert Execution.objects.get(key=one.key).state == State.FAILED
    assert Execution.objects.get(key=two.key).state in (State.WAITING, State.LEASED)
    assert recorded() == [("retry", f"probe/{two.key}", "mended")]
    assert queue("retry-failed", "--flow", "papers").out == "0 retried\n"


def test_cancelling_says_how_many_it_stopped(played: Any, probes: Any) -> None:
    probes(2)
    assert queue("cancel", "p0", "--reason", "wrong").out == ("1 cancelled, 0 left unchanged\n")
    both = queue("cancel", "p0", "p1", "--reason", "x")
    assert both.lines == ["p0 left unchanged: it is cancelled", "1 cancelled, 1 left unchanged"]
    assert both.code == 2
    assert set(Execution.objects.values_list("state", flat=True)) == {State.CANCELLED}
    assert recorded()[0] == ("cancel", "probe/p0", "wrong")


def test_cancelling_several_keys_cancels_none_if_one_is_unknown(probes: Any) -> None:
    probes(1)
    assert queue("cancel", "p0", "nobody", "--reason", "x").code == 3
    assert Execution.objects.get().state == State.WAITING


@pytest.mark.parametrize("target", ["everything", "prep", "prep.low", "host:arxiv.org:443", "fleet"])
def test_what_can_be_paused_can_be_resumed_and_both_are_recorded(target: str) -> None:
    assert queue("pause", target, "--reason", "asked to").out == f"{target} paused\n"
    assert paused() == 1
    assert queue("resume", target).out == f"{target} resumed\n"
    assert paused() == 0
    assert [action for action, _, _ in recorded()] == ["pause", "resume"]


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_pausing_or_resuming_an_unknown_target_is_refused_with_the_known_ones(command: str) -> None:
    result = queue(command, "perp")
    assert result.code == 3
    assert result.error.startswith("nothing is called 'perp'; did you mean 'prep'? There are: everything, ")
    assert "prep.high" in result.error and "host:*" in result.error


def test_a_pause_for_some_minutes_ends_by_itself() -> None:
    queue("pause", "prep", "--minutes", "30")
    until = Limit.objects.get(name="phase:prep").paused_until
    assert until is not None
    assert abs(until - database_now() - timedelta(minutes=30)) < timedelta(minutes=1)


@pytest.mark.parametrize("minutes", ["0", "-5", "soon", "1e99"])
def test_a_pause_of_invalid_length_is_refused(minutes: str) -> None:
    assert "is not a number above 0" in queue("pause", "prep", f"--minutes={minutes}").error
    assert paused() == 0


def test_a_backfill_by_hand_enqueues_at_most_the_number_given(settings: Any, tmp_path: Path) -> None:
    settings.SLUICE_INBOX = tmp_path / "inbox"
    (tmp_path / "list").write_text("10.1000/a\n10.1000/b\n10.1000/c\n")
    queue("import", "--hold", tmp_path / "list")
    assert queue("backfill", "--limit", "2").out == "papers: 2 started\n"
    assert queue("backfill").out == "papers: 1 started\n"
    assert "'0' is not a whole number" in queue("backfill", "--limit", "0").error


def paused() -> int:
    now = database_now()
    return sum(model.objects.paused(now).count() for model in (Queue, Limit))


def recorded() -> list[tuple[str, str, str]]:
    return list(AuditEntry.objects.order_by("pk").values_list("action", "target", "reason"))
