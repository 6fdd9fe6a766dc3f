"""`queue batch …`, `queue watch`, and what all commands share: progress, exit codes, mistyped arguments."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import OperationalError

from queuemgr.cli import exit_codes
from queuemgr.flows.outcomes import Failed
from queuemgr.models import Batch, Execution, State
from queuemgr.reporting import stats
from tests.integration.cli.commands import queue
from tests.shell import Shell, alone

pytestmark = pytest.mark.django_db(transaction=True)

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _a_fleet_with_limits_that_sends_nothing(sent: list[Any]) -> Any:
    from queuemgr.scheduling import limit_rows

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    limit_rows.sync()
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


def opened(*options: str) -> None:
    assert queue("batch", "open", "b", "--flow", "probe", *options).code == 0


def probes_in(batch: str, count: int, prefix: str = "k") -> str:
    return queue("enqueue", "--flow", "probe", "--batch", batch, "--count", count, "--key-prefix", prefix).out


# Batches


def test_a_batch_is_opened_filled_closed_and_shown(played: Any) -> None:
    worker = played(slots=2)
    assert queue("batch", "open", "b", "--flow", "probe", "--window", 2, "--fail-fast").out == (
        "batch b opened (window 2; the first failure cancels the rest)\n"
    )
    assert probes_in("b", 3) == "3 new, 0 already there\n"
    assert probes_in("b", 4) == "1 new, 3 already there\n"
    for grant in worker.begin_all():
        worker.end(grant, next_too=False)
    assert queue("batch", "close", "b").out == "batch b closed\n"
    assert queue("batch", "close", "b").out == "batch b was closed already\n"
    shown = queue("batch", "show", "b").out
    assert re.search(r"^progress +2 of 4 ended: 2 done; ", shown, re.MULTILINE)
    assert re.search(r"^state +closed$", shown, re.MULTILINE)
    [facts] = queue("batch", "show", "b", "--json").records
    assert (facts["batch"], facts["total"], facts["done"], facts["window"]) == ("b", 4, 2, 2)
    [listed] = queue("batch", "list", "--json").records
    etas = ("eta", "eta_p10", "eta_p90")
    assert {k: v for k, v in facts.items() if k not in ("failures", "stopped", "callbacks", *etas)} == {
        k: v for k, v in listed.items() if k not in etas
    }


def test_callbacks_are_declared_when_a_batch_is_opened_and_shown_with_what_became_of_them(
    played: Any,
) -> None:
    worker = played(slots=2)
    opened("--on-success", 'probe={"seconds": 3}', "--on-failure", "probe")
    probes_in("b", 1)
    assert queue("batch", "open", "inner", "--flow", "probe", "--parent", "b").code == 0
    queue("batch", "close", "inner")
    queue("batch", "close", "b")
    key = f"batch:{Batch.objects.get(name='b').pk}"
    assert f"on_success  probe/{key}:on_success has not fired" in queue("batch", "show", "b").out
    assert re.search(r"^in +b$", queue("batch", "show", "inner").out, re.MULTILINE)
    [grant] = worker.begin_all()
    worker.end(grant)
    [facts] = queue("batch", "show", "b", "--json").records
    assert [(c["event"], c["state"]) for c in facts["callbacks"]] == [
        ("on_success", "running"), ("on_failure", "has not fired"),
    ]  # fmt: skip
    assert (facts["succeeded"], facts["parent"]) == (True, None)
    assert Execution.objects.get(key=f"{key}:on_success").payload == {"seconds": 3}
    Execution.objects.filter(key=f"{key}:on_success").update(key="gone")
    assert f"probe/{key}:on_success deleted" in queue("batch", "show", "b").out
    for wrong in ("probe={", "probe=[1]", "={}"):
        assert queue("batch", "open", "c", "--on-complete", wrong).code == 64
    assert (
        "no flow is called 'x'" in queue("batch", "open", "c", "--flow", "probe", "--on-complete", "x").error
    )


def test_results_stop_at_the_first_unfinished_member_and_follow_exits_with_2_if_any_failed(
    played: Any,
) -> None:
    worker = played(slots=3)
    opened()
    probes_in("b", 3)
    grants = {grant.key: grant for grant in worker.begin_all()}
    worker.end(grants["k-0"], Failed("not_found", "404"))
    worker.end(grants["k-2"])
    assert queue("batch", "results", "b").out == "0  k-0  failed  not_found: 404\n"
    worker.end(grants["k-1"])
    queue("batch", "close", "b")
    result = queue("batch", "results", "b", "--jsonl", "--follow")
    assert result.code == 2
    assert [(r["seq"], r["key"], r["state"]) for r in result.records] == [
        (0, "k-0", "failed"), (1, "k-1", "done"), (2, "k-2", "done"),
    ]  # fmt: skip
    assert [r["seq"] for r in queue("batch", "results", "b", "--jsonl", "--after", 1).records] == [2]
    assert queue("batch", "show", "b", "--watch").code == 2


def test_a_file_is_imported_into_a_batch_in_the_order_of_its_lines(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("10.1000/b\nnonsense\n10.1000/a\n")
    queue("batch", "open", "papers")
    result = queue("import", "--batch", "papers", tmp_path / "list")
    assert (result.code, result.lines[0]) == (2, "2 new, 0 already there, 1 bad")
    assert queue("batch", "add", "papers", "--file", tmp_path / "list").lines[0] == (
        "0 new, 2 already there, 1 bad"
    )
    queue("enqueue", "10.1000/c")
    assert queue("batch", "add", "papers", "10.1000/c", "10.1000/d").out == (
        "1 new, 1 already there, 1 of them outside this batch\n"
    )
    members = Batch.objects.get().executions.order_by("batch_seq")
    assert [m.key for m in members] == ["doi:10.1000/b", "doi:10.1000/a", "doi:10.1000/d"]


def test_cancelling_a_batch_says_how_many_had_not_ended() -> None:
    opened()
    probes_in("b", 3)
    assert queue("batch", "cancel", "b", "--reason", "no").out == (
        "batch b cancelled: 3 unfinished members\n"
    )
    assert queue("batch", "cancel", "b").out == "batch b was cancelled already\n"
    assert set(Execution.objects.values_list("state", flat=True)) == {State.CANCELLED}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("batch", "show", "none"), "no batch is called 'none'; the newest are: b"),
        (("batch", "open", "b", "--flow", "probe"), "a batch is called 'b' already"),
        (("batch", "add", "b"), "name items, or a file of them with --file"),
        (("batch", "add", "b", "x"), "flow 'probe' takes no items"),
        (("import", "--batch", "b", "--flow", "papers", "x"), "batch b is of flow 'probe'"),
        (("import", "--batch", "b", "--hold", "x"), "leave out --hold"),
        (("enqueue", "--batch", "b", "x"), "say --flow probe"),
    ],
)
def test_an_invalid_batch_command_is_refused_with_the_reason(arguments: Any, error: str) -> None:
    opened()
    result = queue(*arguments)
    assert (result.code, result.out) == (3, "")
    assert error in result.error


# Stats and watch


def test_stats_list_failures_by_kind_open_batches_and_waiting_work_per_queue(played: Any) -> None:
    worker = played(slots=1)
    opened("--window", "1")
    probes_in("b", 3)
    [grant] = worker.begin_all()
    worker.end(grant, Failed("not_found", "404"), next_too=False)
    (stats,) = queue("stats", "--json").records
    assert stats["failures"] == [{"error_kind": "not_found", "count": 1}]
    [batch] = stats["batches"]
    assert (batch["batch"], batch["total"], batch["failed"]) == ("b", 3, 1)
    [waits] = stats["queues"]
    assert waits["waiting"] + waits["leased"] == 2
    assert waits["due"] <= 1


def paths(value: Any, here: str = "") -> set[str]:
    """Every name in a structure, as `queues[].waiting`."""
    if isinstance(value, dict):
        return {p for k, v in value.items() for p in ({f"{here}{k}"} | paths(v, f"{here}{k}."))}
    if isinstance(value, list):
        return {p for v in value for p in paths(v, f"{here.rstrip('.')}[].")}
    return set()


OPEN_NAMES = ("statuses.", "budget.by_phase.")
"""Names that are data: statuses and phases."""


def test_stats_print_exactly_the_fields_the_manual_documents(played: Any) -> None:
    worker = played(slots=1)
    opened()
    probes_in("b", 3)
    [grant] = worker.begin_all()
    worker.end(grant, Failed("not_found", "404"), next_too=False)
    queue("limit", "openai:gpt", "--allowances", "20 usd/day", "--new")
    queue("pause", "everything")
    (stats,) = queue("stats", "--json").records
    printed = {p for p in paths(stats) if not p.startswith(OPEN_NAMES)}
    manual = (REPOSITORY / "docs/operate.md").read_text()
    table = manual[manual.index("<!-- stats -->") : manual.index("<!-- end of stats -->")]
    documented = set(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE))
    containers = {p for p in printed if any(q.startswith((f"{p}.", f"{p}[].")) for q in printed)}
    assert printed - containers == documented
    assert isinstance(stats["forecast"]["phases"], list)


def test_watching_once_shows_every_part_as_plain_text(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    probes(1, prefix="[/red]\x1b[31m")
    [grant] = worker.begin_all()
    worker.end(grant, Failed("not_found", "404 [bold]x"))
    output = queue("watch", "--once").out
    for heading in ("Queues", "Limits", "Budget", "Workers", "Open batches", "Recent failures"):
        assert re.search(rf"^{heading}", output, re.MULTILINE)
    assert "\x1b" not in output and "[/red]\\u001b[31m0" in output and "404 [bold]x" in output
    assert re.search(r"^prep\.high +0 ", output, re.MULTILINE)


def test_watch_keeps_running_while_the_database_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, probes: Any
) -> None:
    probes(1)
    looks = iter([stats.counts, _away, stats.counts])
    monkeypatch.setattr(stats, "counts", lambda: next(looks, _ended)())
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    result = queue("watch", "--interval", 1)
    assert result.code == 0
    assert [line[20:] for line in result.lines] == [
        "pending 1", "the database does not answer (it restarts): retrying",
        "pending 1",
    ]  # fmt: skip


def _away() -> Any:
    raise OperationalError("it restarts\nwith details")


def _ended() -> Any:
    raise KeyboardInterrupt


def test_watch_in_a_terminal_updates_live_and_exits_with_0_on_ctrl_c(installed: Path, shell: Shell) -> None:
    output, code = in_a_terminal(
        shell, installed, "queue", "watch", "--interval", "0.2", until=b"live workers"
    )
    assert code == 0
    assert "live workers" in output and "Traceback" not in output


def in_a_terminal(shell: Shell, directory: Path, *arguments: str, until: bytes) -> tuple[str, int]:
    """What a command writes on a terminal, sent Ctrl-C once it has written this."""
    ours, its = pty.openpty()
    with open(its, "wb") as terminal:
        process = shell.server.start(
            ["manage.py", *arguments], alone(directory, TERM="xterm"), [terminal] * 3
        )
    output = _read(ours, until, 60)
    process.send_signal(signal.SIGINT)
    output += _read(ours, b"", 30)
    return output.decode(errors="replace"), process.wait(30)


def _read(terminal: int, until: bytes, seconds: float) -> bytes:
    """What comes until this does, or (empty) until its end."""
    output, ends = b"", time.monotonic() + seconds
    with contextlib.suppress(OSError):
        while time.monotonic() < ends and not (until and until in output):
            if select.select([terminal], [], [], 0.2)[0]:
                more = os.read(terminal, 65536)
                if not more:
                    break
                output += more
    return output


# Progress


def test_a_progress_bar_is_drawn_only_in_a_terminal(installed: Path, shell: Shell) -> None:
    many = ("queue", "enqueue", "--flow", "probe", "--count", "1500", "--key-prefix")
    seen, _ = in_a_terminal(shell, installed, *many, "a", until=b"1500 new")
    assert "enqueuing" in seen and "\x1b[" in seen
    quiet = shell(installed, *many, "b", TERM="dumb")
    assert (quiet.stdout, quiet.stderr) == ("1500 new, 0 already there\n", "")


# Exit codes and mistyped arguments


def test_the_manual_has_every_exit_code() -> None:
    manual = (REPOSITORY / "docs/operate.md").read_text()
    documented = dict(re.findall(r"^\| (\d+) \| (.*) \|$", manual, re.MULTILINE))
    assert documented == {str(code): means for code, means in exit_codes.EXIT_CODES.items()}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("stast",), "did you mean stats"),
        (("batch", "clsoe", "b"), "did you mean close"),
        (("stats", "--jsn"), "unrecognized arguments: --jsn; did you mean --json?"),
        (("backfill", "--limt=3"), "did you mean --limit?"),
        (("enqueue", "--priority", "hihg"), "did you mean high?"),
        (("why",), "the following arguments are required: key"),
        (("show", "k", "--nothing-like-it-at-all"), "unrecognized arguments"),
    ],
)
def test_a_mistyped_argument_is_answered_with_a_suggestion(arguments: tuple[str, ...], error: str) -> None:
    result = queue(*arguments)
    assert (result.code, result.out) == (64, "")
    assert error in result.error


def test_every_command_has_an_exit_code_of_its_own_for_an_unavailable_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forced in every subcommand that reads or writes rows."""
    from django.db.backends.utils import CursorWrapper

    def away(*given: Any, **named: Any) -> Any:
        raise OperationalError("connection refused")

    arguments: dict[str, tuple[str, ...]] = {
        "attempts": (), "batch": ("list",), "cancel": ("k",), "enqueue": ("10.1000/x",),
        "export": ("--jsonl",), "limits": (), "pause": ("prep",), "resume": ("prep",),
        "retry-failed": (), "backfill": (), "show": ("k",), "stats": (), "why": ("k",),
        "watch": ("--once",), "policy": ("network",), "replay": ("--since", "2026-01-01"),
        "limit": ("fleet",),
    }  # fmt: skip
    monkeypatch.setattr(CursorWrapper, "execute", away)
    codes = {name: queue(name, *more).code for name, more in arguments.items()}
    monkeypatch.undo()
    assert codes == dict.fromkeys(arguments, 5)


def test_leases_that_cannot_be_sent_are_reported_as_stored(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acceptance tests freeze and kill a broker; this is the message logged then."""
    from queuemgr.lifecycle import publish
    from queuemgr.lifecycle.leases import Grant

    def refuse(*given: Any) -> None:
        raise ConnectionRefusedError

    monkeypatch.undo()
    monkeypatch.setattr(publish, "_send", refuse)
    grant = Grant(uuid4(), 1, "probe", "k", "prep", "probe", 1, "", {}, {})
    assert publish.send([grant]) == 0
    assert "the work is stored; 1 leases will be granted again" in caplog.text
