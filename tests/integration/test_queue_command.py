"""What an operator does from a terminal: what each command says, what it changes, and how it ends."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from pipeline.knobs import pipeline_knobs
from pipeline.models import Document
from queuemgr import limits
from queuemgr.fleet_lock import database_now
from queuemgr.flow import HIGH, all_queues
from queuemgr.management.commands.queue import Command, subcommands
from queuemgr.models import Change, Execution, Lease, Limit, Queue, State
from queuemgr.outcomes import Done, Failed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]

REPOSITORY = Path(__file__).resolve().parents[2]
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00")


@dataclass(frozen=True)
class Said:
    """What a command wrote, how it ended, and its complaint."""

    out: str
    code: int = 0
    complaint: str = ""

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def records(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


def run(name: str, *arguments: object) -> Said:
    """Run a command of ours to its end, in this process."""
    out = io.StringIO()
    try:
        call_command(name, *map(str, arguments), stdout=out)
    except CommandError as error:
        return Said(out.getvalue(), error.returncode, str(error))
    except SystemExit as ended:
        return Said(out.getvalue(), int(ended.code or 0))
    return Said(out.getvalue())


def queue(*arguments: object) -> Said:
    return run("queue", *arguments)


def alone(directory: Path, **variables: str) -> dict[str, str]:
    """The environment of a process with state of its own, told nothing of this test run."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    for name in ("BROKER_URL", "DATABASE_URL", "PYTHONUNBUFFERED"):
        kept.pop(name, None)
    return {**kept, "SLUICE_DATA_DIR": str(directory), **variables}


def shell(directory: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`python manage.py …` in a process of its own, with state of its own."""
    return subprocess.run(
        [sys.executable, "manage.py", *words], cwd=REPOSITORY, text=True, capture_output=True,
        env=alone(directory, **variables), timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _a_fleet_with_limits_that_sends_nothing(sent: list[Any]) -> Iterator[None]:
    """As a start leaves it; and the signals of the test run stay its own."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGPIPE)}
    limits.sync()
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def lines(tmp_path: Path) -> Callable[[bytes], Path]:
    """A file of these lines, as they stand."""

    def write(content: bytes) -> Path:
        (tmp_path / "list").write_bytes(content)
        return tmp_path / "list"

    return write


# Help


@pytest.mark.parametrize("name", subcommands())
def test_every_subcommand_explains_itself_by_examples_that_it_understands(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        call_command("queue", name, "--help")
    said = capsys.readouterr().out
    examples = re.findall(rf"^  (queue {name}.*)$", said, re.MULTILINE)
    assert ended.value.code == 0
    assert examples
    parser = Command().create_parser("manage.py", "queue")
    for example in examples:
        words = shlex.split(re.split(r" (?:[|<>]|&&)|  +", example)[0])
        assert parser.parse_args(words[1:]).subcommand == name


def test_the_help_names_every_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call_command("queue", "--help")
    said = capsys.readouterr().out
    assert all(f"    {name} " in said for name in subcommands())


# Enqueue


def test_enqueueing_says_how_many_were_new_and_how_many_there_already() -> None:
    assert queue("enqueue", "2101.00001", "10.1000/x").out == "2 new, 0 already there\n"
    assert queue("enqueue", "arXiv:2101.00001", "10.1000/y").out == "1 new, 1 already there\n"


def test_an_item_that_cannot_be_understood_stops_all_of_them() -> None:
    said = queue("enqueue", "2101.00001", "nonsense")
    assert (said.code, said.out) == (3, "")
    assert "'nonsense' cannot be used: give an arXiv id" in said.complaint
    assert not Execution.objects.exists()


def test_probes_take_every_option_there_is(tmp_path: Path) -> None:
    said = queue(
        "enqueue", "--flow", "probe", "--count", 3, "--seconds", 0.2, "--cpu-ms", 5, "--phase", "wrap",
        "--priority", "high", "--requests", 2, "--key-prefix", "x", "--limit-key", "host:a",
        "--trace", tmp_path / "trace", "--fail", "network", "--die",
    )  # fmt: skip
    assert said.out == "3 new, 0 already there\n"
    one = Execution.objects.get(key="x-2")
    assert (one.phase, one.priority, one.route.limit_keys, one.route.cost) == (
        "wrap", HIGH, "host:a", 2,
    )  # fmt: skip
    assert one.payload == {
        "seconds": 0.2, "cpu_ms": 5.0, "phase": "wrap", "requests": 2, "limit_key": "host:a",
        "trace": str(tmp_path / "trace"), "fail": "network", "die": True,
    }  # fmt: skip


def test_probes_without_a_prefix_never_meet_those_of_another_call() -> None:
    for _ in range(2):
        assert queue("enqueue", "--flow", "probe", "--count", 2).out == "2 new, 0 already there\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "no items given"),
        (("--flow", "probe", "x"), "probes take no items"),
        (("--flow", "papres", "x"), "no flow is called 'papres'; registered: papers, probe"),
        (("--flow", "probe", "--requests", "20000"), "above daily_budget=10000"),
        (("--flow", "probe", "--count", "0"), "'0' is not a whole number of at least 1"),
        (("--flow", "probe", "--requests", "-1"), "'-1' is not a whole number of at least 0"),
        (("--flow", "probe", "--key-prefix", "k" * 300), "1 to 255 fit"),
        (("--priority", "urgent", "x"), "choose from 'high', 'normal', 'low'"),
        (("--flow", "probe", "--phase", "prepp"), "choose from 'prep', 'expensive', 'wrap'"),
    ],
)
def test_what_cannot_be_enqueued_is_refused_with_what_would_be_right(
    arguments: tuple[str, ...], complaint: str
) -> None:
    said = queue("enqueue", *arguments)
    assert complaint in said.complaint
    assert said.code != 0
    assert not Execution.objects.exists()


# Import


def test_import_goes_on_past_bad_lines_and_names_each_by_its_number(
    lines: Callable[[bytes], Path],
) -> None:
    queue("enqueue", "10.1000/known")
    said = queue("import", lines(
        b'\xef\xbb\xbf{"doi": "10.1000/known"}\n'
        b"2101.00001\r\n"
        b"\n"
        b"   \t\n"
        b"nonsense\n"
        b'{"doi": "10.1000/cut\n'
        b'{"title": "no name in it"}\n'
        b"./caf\xe9.pdf\n"
        b'{"id": "arXiv:2101.00001"}\n'
        b"10.1000/last"
    ))  # fmt: skip
    assert said.code == 2
    assert said.lines[0] == "2 new, 2 already there, 4 bad"
    assert [line.split(":")[0] for line in said.lines[1:]] == [f"line {n}" for n in (5, 6, 7, 8)]
    assert [why in line for why, line in zip(
        ("'nonsense' cannot be used", "not JSON", 'no "id"', "not UTF-8"), said.lines[1:], strict=True
    )] == [True] * 4  # fmt: skip
    assert Execution.objects.count() == 3


def test_import_of_good_lines_ends_with_0(lines: Callable[[bytes], Path]) -> None:
    said = queue("import", "--priority", "low", lines(b"10.1000/a\n10.1000/b\n"))
    assert said == Said("2 new, 0 already there, 0 bad\n")
    assert set(Execution.objects.values_list("priority", flat=True)) == {2}


def test_import_takes_more_lines_than_fit_in_one_transaction(
    lines: Callable[[bytes], Path],
) -> None:
    content = b"".join(b"bad\n" if n == 1200 else b"10.1000/%d\n" % n for n in range(1301))
    said = queue("import", lines(content))
    assert said.lines[0] == "1300 new, 0 already there, 1 bad"
    assert said.lines[1].startswith("line 1201: ")


def test_import_for_later_names_bad_lines_too_and_starts_nothing(
    lines: Callable[[bytes], Path],
) -> None:
    said = queue("import", "--later", lines(b"10.1000/a\nnonsense\n\xff\n10.1000/b\n"))
    assert said.code == 2
    assert said.lines[0] == "2 known for later, 2 bad"
    assert [line[:6] for line in said.lines[1:]] == ["line 2", "line 3"]
    assert (Document.objects.count(), Execution.objects.count()) == (2, 0)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_import_of_nothing_is_no_error(content: bytes, lines: Callable[[bytes], Path]) -> None:
    assert queue("import", lines(content)) == Said("0 new, 0 already there, 0 bad\n")


def test_import_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"10.1000/a\n2101.00001\n")))
    assert queue("import", "-").out == "2 new, 0 already there, 0 bad\n"


def test_import_of_a_file_that_cannot_be_read_says_which_and_why(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        said = queue("import", path)
        assert (said.code, said.out) == (3, "")
        assert f"{path} cannot be read: {why}" in said.complaint


def test_probes_are_not_imported(lines: Callable[[bytes], Path]) -> None:
    said = queue("import", "--flow", "probe", lines(b"x\n"))
    assert (said.code, said.complaint) == (3, "flow 'probe' takes no items from a file")


# Looking


def test_stats_speak_stable_names(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    probes(3, phase="wrap", requests=1)
    worker.begin_all()
    (stats,) = queue("stats", "--json").records
    assert set(stats) == {
        "at", "total", "statuses", "queues", "limits", "budget", "workers", "waiting_on", "failures",
        "batches", "forecast",
    }  # fmt: skip
    assert MOMENT.fullmatch(stats["at"])
    assert (stats["total"], stats["statuses"]) == (3, {"analyzed": 2, "wrapping": 1})
    assert stats["queues"][0].pop("oldest_wait_seconds") >= 0
    assert stats["queues"] == [
        {"queue": "wrap.normal", "phase": "wrap", "priority": "normal",
         "waiting": 2, "due": 2, "leased": 0, "running": 1},
    ]  # fmt: skip
    assert stats["limits"][0].keys() == {
        "limit", "running", "max_running", "reserved_high", "rate", "daily_budget", "spent",
        "reserved", "resets_at", "paused", "paused_until", "closed_until", "closed_because",
        "opening", "opening_because",
    }  # fmt: skip
    budget = stats["budget"]
    assert (budget["budget"], budget["spent"], budget["reserved"]) == (10_000, 0, 1)
    assert budget.keys() == {"day", "zone", "budget", "spent", "reserved", "by_phase"}
    assert MOMENT.fullmatch(stats["workers"][0].pop("seen"))
    assert stats["workers"] == [
        {"worker": "w@test", "slots": 1, "busy": 1, "queues": all_queues(), "draining": False}
    ]
    (stopped,) = stats["waiting_on"]
    assert stopped.keys() == {"limit", "reason", "waiting", "until"}
    assert stopped["waiting"] == 2


def test_stats_for_people_show_every_part_without_blanks_at_the_ends(
    played: Any, probes: Any
) -> None:
    played(slots=1)
    probes(3)
    said = queue("stats")
    for heading in (
        "Executions",
        "Queues",
        "Limits",
        "Budget",
        "Workers",
        "Waiting on",
        "Forecast",
    ):
        assert re.search(rf"^{heading}", said.out, re.MULTILINE)
    assert all(line == line.rstrip() for line in said.lines)


def test_attempts_speak_stable_names_and_microseconds(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    probes(1, priority=HIGH, limit_key="host:a", requests=3)
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("network", "reset"))
    (record,) = queue("attempts", "--json").records
    moments = {name: record.pop(name) for name in ("leased", "started", "ended")}
    assert all(MOMENT.fullmatch(moment) for moment in moments.values())
    assert list(moments.values()) == sorted(moments.values())
    assert record == {
        "key": "p0", "flow": "probe", "phase": "prep", "step": "probe", "priority": "high",
        "limit_key": "host:a", "worker": "w@test", "outcome": "retried", "error_kind": "network",
        "requests": 3, "lease": str(grant.lease_id),
    }  # fmt: skip


def test_attempts_come_in_order_and_can_be_narrowed_down(played: Any, probes: Any) -> None:
    worker = played(slots=2)
    probes(2)
    one, two = worker.begin_all()
    worker.end(one)
    worker.end(two, Failed("not_found", "404"))
    assert [r["key"] for r in queue("attempts", "--json").records] == [one.key, two.key]
    assert [r["key"] for r in queue("attempts", "--json", "--outcome", "failed").records] == [
        two.key
    ]
    assert queue("attempts", "--json", "--key", "none").out == ""
    assert queue("attempts", "--flow", "probe").out.count("\n") == 2
    assert "choose from 'done', 'skipped'" in queue("attempts", "--outcome", "good").complaint


def test_show_tells_where_an_execution_stands_and_every_attempt(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    worker.end(grant, Failed("network", "connection reset"))
    said = queue("show", "p0")
    assert re.search(r"^status +pending$", said.out, re.MULTILINE)
    assert re.search(r"^why +not before .* \(try 2 of 6 after network\)$", said.out, re.MULTILINE)
    assert "retried" in said.out and "connection reset" in said.out
    (shown,) = queue("show", "p0", "--json").records
    assert (shown["key"], shown["status"], shown["error_kind"]) == ("p0", "pending", "network")
    assert MOMENT.fullmatch(shown["created"])
    assert [a["outcome"] for a in shown["attempts"]] == ["retried"]


def test_why_says_in_a_sentence_what_work_waits_for(played: Any, probes: Any) -> None:
    played(slots=1)
    queue("pause", "prep", "--reason", "moving")
    probes(1)
    said = queue("why", "p0")
    assert re.fullmatch(r"phase:prep paused by \S+: moving", said.lines[0])
    assert re.fullmatch(
        r"position 1 in prep.normal; no start to expect: phase:prep paused by \S+: moving",
        said.lines[1],
    )


@pytest.mark.parametrize("command", ["show", "why", "cancel"])
def test_a_key_nobody_has_is_named(command: str) -> None:
    said = queue(command, "nobody")
    assert (said.code, said.complaint) == (3, "no execution has the key 'nobody'")


@pytest.mark.parametrize("command", ["show", "why", "cancel"])
def test_a_key_two_flows_have_asks_which(command: str, probes: Any) -> None:
    queue("enqueue", "10.1000/x")
    probes(1, prefix="doi:10.1000/x")
    Execution.objects.filter(flow="probe").update(key="doi:10.1000/x")
    said = queue(command, "doi:10.1000/x")
    assert (said.code, "say which with --flow" in said.complaint) == (3, True)
    assert queue(command, "doi:10.1000/x", "--flow", "probe").code == 0


# Changing


def test_retrying_what_failed_can_be_looked_at_first_and_narrowed_to_a_kind(
    played: Any, probes: Any
) -> None:
    worker = played(slots=2)
    probes(2)
    one, two = worker.begin_all()
    worker.end(one, Failed("not_found", "404"), next_too=False)
    worker.end(two, Failed("encrypted", "asks for a password"), next_too=False)
    look = queue("retry-failed", "--kind", "encrypted", "--dry-run")
    assert look.lines == [
        "1 would be retried", f"  probe/{two.key}  encrypted: asks for a password",
    ]  # fmt: skip
    assert Execution.objects.failed().count() == 2
    assert queue("retry-failed", "--kind", "encrypted", "--reason", "mended").out == "1 retried\n"
    assert Execution.objects.get(key=one.key).state == State.FAILED
    assert Execution.objects.get(key=two.key).state in (State.WAITING, State.LEASED)
    assert recorded() == [("retry", f"probe/{two.key}", "mended")]
    assert queue("retry-failed", "--flow", "papers").out == "0 retried\n"


def test_cancelling_says_how_many_it_stopped(played: Any, probes: Any) -> None:
    probes(2)
    assert queue("cancel", "p0", "--reason", "wrong").out == (
        "1 cancelled, 0 had ended or been cancelled\n"
    )
    assert queue("cancel", "p0", "p1").out == "1 cancelled, 1 had ended or been cancelled\n"
    assert set(Execution.objects.values_list("state", flat=True)) == {State.CANCELLED}
    assert recorded()[0] == ("cancel", "probe/p0", "wrong")


def test_cancelling_several_cancels_none_when_one_is_not_there(probes: Any) -> None:
    probes(1)
    assert queue("cancel", "p0", "nobody").code == 3
    assert Execution.objects.get().state == State.WAITING


@pytest.mark.parametrize(
    "target", ["everything", "prep", "prep.low", "host:arxiv.org:443", "fleet"]
)
def test_what_can_be_paused_can_be_resumed_and_both_are_recorded(target: str) -> None:
    assert queue("pause", target, "--reason", "asked to").out == f"{target} paused\n"
    assert paused() == 1
    assert queue("resume", target).out == f"{target} resumed\n"
    assert paused() == 0
    assert [action for action, _, _ in recorded()] == ["pause", "resume"]


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_what_does_not_exist_is_neither_paused_nor_resumed_and_what_does_is_named(
    command: str,
) -> None:
    said = queue(command, "perp")
    assert said.code == 3
    assert said.complaint.startswith("nothing is called 'perp'; there are: everything, ")
    assert "prep.high" in said.complaint and "host:*" in said.complaint


def test_a_pause_for_some_minutes_ends_by_itself() -> None:
    queue("pause", "prep", "--minutes", "30")
    until = Limit.objects.get(name="phase:prep").paused_until
    assert until is not None
    assert abs(until - database_now() - timedelta(minutes=30)) < timedelta(minutes=1)


@pytest.mark.parametrize("minutes", ["0", "-5", "soon", "1e99"])
def test_a_pause_for_no_sensible_time_is_refused(minutes: str) -> None:
    assert "is not a number above 0" in queue("pause", "prep", f"--minutes={minutes}").complaint
    assert paused() == 0


def test_seeding_by_hand_starts_at_most_so_many(
    lines: Callable[[bytes], Path], settings: Any, tmp_path: Path
) -> None:
    settings.SLUICE_INBOX = tmp_path / "inbox"
    queue("import", "--later", lines(b"10.1000/a\n10.1000/b\n10.1000/c\n"))
    assert queue("seed", "--limit", "2").out == "papers: 2 started\n"
    assert queue("seed").out == "papers: 1 started\n"
    assert "'0' is not a whole number" in queue("seed", "--limit", "0").complaint


def paused() -> int:
    now = database_now()
    return sum(model.objects.paused(now).count() for model in (Queue, Limit))


def recorded() -> list[tuple[str, str, str]]:
    return list(Change.objects.order_by("pk").values_list("action", "target", "reason"))


# In a terminal


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose database has its tables."""
    directory = tmp_path_factory.mktemp("installed")
    assert shell(directory, "migrate", "--verbosity", "0").returncode == 0
    return directory


def test_errors_go_to_stderr_in_one_line_without_a_traceback(installed: Path) -> None:
    """P8-08"""
    done = shell(installed, "queue", "pause", "perp")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("CommandError: nothing is called 'perp'")
    assert done.stderr.count("\n") == 1


def test_a_bad_option_ends_with_64_and_says_how_it_is_used(tmp_path: Path) -> None:
    done = shell(tmp_path, "queue", "seed", "--limit", "none")
    assert (done.returncode, done.stdout) == (64, "")
    assert "usage: manage.py queue seed" in done.stderr
    assert "'none' is not a whole number of at least 1" in done.stderr


def test_a_database_without_tables_is_said_and_where_to_look(tmp_path: Path) -> None:
    done = shell(tmp_path, "queue", "stats")
    assert (done.returncode, done.stdout) == (5, "")
    assert "manage.py doctor" in done.stderr and "Traceback" not in done.stderr


def test_a_knob_that_cannot_work_is_named_with_its_value(tmp_path: Path) -> None:
    done = shell(tmp_path, "queue", "stats", SLUICE_LEASE_SECONDS="soon")
    assert done.returncode == 3
    assert "SLUICE_LEASE_SECONDS='soon'" in done.stderr and "Traceback" not in done.stderr


def test_whoever_reads_no_further_ends_a_watch_without_a_complaint(installed: Path) -> None:
    """P8-08: a closed output pipe; and a line is there as soon as it is written."""
    watch = [sys.executable, "manage.py", "queue", "stats", "--json", "--watch", "--every", "0.1"]
    with subprocess.Popen(
        watch, cwd=REPOSITORY, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=alone(installed),
    ) as watching:  # fmt: skip
        assert watching.stdout is not None and watching.stderr is not None
        assert json.loads(watching.stdout.readline())["total"] == 0
        watching.stdout.close()
        assert watching.stderr.read() == ""
        assert watching.wait(20) != 0


# Doctor


@pytest.fixture
def fresh_pipeline_knobs() -> Iterator[None]:
    pipeline_knobs.cache_clear()
    yield
    pipeline_knobs.cache_clear()


OF_TESTS = "SQLite in journal mode memory"
"""Bad for a fleet, and where these tests keep their SQLite."""


def findings() -> dict[str, list[str]]:
    """What `doctor --json` found, by level; the exit code says whether any of it was bad."""
    said = run("doctor", "--json")
    assert all(record.keys() == {"level", "what", "remedy"} for record in said.records)
    assert all(record["remedy"] for record in said.records if record["level"] != "good")
    by_level: dict[str, list[str]] = {"good": [], "note": [], "bad": []}
    for record in said.records:
        by_level[record["level"]].append(record["what"])
    assert said.code == bool(by_level["bad"])
    by_level["bad"] = [what for what in by_level["bad"] if what != OF_TESTS]
    return by_level


def test_doctor_finds_nothing_bad_in_a_set_up_that_works(make_worker: Any) -> None:
    make_worker()
    found = findings()
    assert found["bad"] == []
    assert "every migration is applied" in found["good"]
    assert any(what.startswith("broker redis://") and "answers" in what for what in found["good"])
    assert "1 workers alive, every queue consumed" in found["good"]


def test_doctor_for_people_has_a_line_a_finding_and_the_remedy_beside_it() -> None:
    said = run("doctor")
    assert all(re.match(r"(ok  |note|BAD )  \S", line) for line in said.lines)
    assert "note  no worker is alive: start `manage.py up`, `queue run` or `worker`" in said.lines


def test_doctor_hides_the_brokers_password() -> None:
    assert os.environ["BROKER_URL"].split(":")[2].split("@")[0] not in run("doctor").out


def test_doctor_names_the_queues_nobody_consumes(make_worker: Any) -> None:
    make_worker(queues=[name for name in all_queues() if not name.startswith("wrap")])
    assert findings()["bad"] == ["no live worker consumes wrap.high, wrap.normal, wrap.low"]


def test_doctor_sees_leases_nobody_releases(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    Lease.objects.update(expires_at=database_now() - timedelta(minutes=5))
    (bad,) = findings()["bad"]
    assert bad == "1 leases ran out over a minute ago and were not released"
    worker.end(grant, Done())
    assert findings()["bad"] == []


def test_doctor_sees_migrations_that_were_not_applied() -> None:
    recorder = MigrationRecorder(connection)
    (newest,) = MigrationLoader(connection).graph.leaf_nodes("pipeline")
    recorder.record_unapplied(*newest)
    try:
        bad = findings()["bad"]
    finally:
        recorder.record_applied(*newest)
    assert bad == ["1 migrations are not applied"]


def test_doctor_sees_an_endpoint_without_a_model(
    monkeypatch: pytest.MonkeyPatch, fresh_pipeline_knobs: None
) -> None:
    monkeypatch.setenv("SLUICE_LLM_BASE_URL", "http://127.0.0.1:1/v1")
    assert findings()["bad"] == ["SLUICE_LLM_BASE_URL is set without SLUICE_LLM_MODEL"]


def test_doctor_suspects_a_knob_that_was_mistyped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_MAX_WORKER", "3")
    assert "SLUICE_MAX_WORKER is set and no knob has that name" in findings()["note"]


@pytest.mark.parametrize(
    ("variable", "value", "what", "remedy"),
    [
        ("BROKER_URL", "redis://:pw@127.0.0.1:1/0", "does not answer", "start it, mend BROKER_URL"),
        ("BROKER_URL", "carrier-pigeon://x", "BROKER_URL cannot be used", "write redis://HOST"),
        ("DATABASE_URL", "postgres://x:pw@127.0.0.1:1/x", "database: ", "mend the database first"),
    ],
)
def test_doctor_says_what_does_not_answer_and_still_looks_at_the_rest(
    variable: str, value: str, what: str, remedy: str, tmp_path: Path
) -> None:
    done = shell(tmp_path, "doctor", "--json", **{variable: value})
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr.count("Traceback")) == (1, 0)
    bad = [f"{f['what']}: {f['remedy']}" for f in found if f["level"] == "bad"]
    assert any(what in line and remedy in line for line in bad), bad
    assert "the local OCR engine is installed" in [f["what"] for f in found]
    assert ":pw@" not in done.stdout


# Worker


def test_the_worker_command_is_shown_as_the_plain_celery_command_it_becomes() -> None:
    words = shlex.split(run("worker", "--print", "prep", "--slots", "3", "--pool", "prefork").out)
    assert words[:5] == [sys.executable, "-m", "celery", "-A", "project"]
    assert option(words, "--queues") == "prep.high,prep.normal,prep.low"
    assert (option(words, "--concurrency"), option(words, "--pool")) == ("3", "prefork")
    assert option(words, "--hostname") == "steps@%h"


def test_a_worker_of_no_phase_serves_every_queue_and_chores_get_a_slot_of_their_own() -> None:
    words = shlex.split(run("worker", "--print", "--chores", "--name", "all").out)
    assert option(words, "--queues") == ",".join([*all_queues(), "housekeeping"])
    assert (option(words, "--concurrency"), option(words, "--hostname")) == ("9", "all@%h")


def test_a_worker_of_a_phase_there_is_none_of_is_refused_naming_those_there_are() -> None:
    said = run("worker", "--print", "perp")
    assert (said.code, said.complaint) == (
        3, "no phase is called perp; there are prep, expensive, wrap",
    )  # fmt: skip


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_moments_are_in_utc_whatever_the_time_zone_of_the_reader() -> None:
    (stats,) = queue("stats", "--json").records
    assert datetime.fromisoformat(stats["at"]).utcoffset() == timedelta(0)
