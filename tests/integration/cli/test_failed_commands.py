"""`queue failed …`: failed work written to a file, put back from one, and handed over to another flow."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from queuemgr.cli import failed as failed_command
from queuemgr.flows import flow as flows
from queuemgr.flows.flow import Flow, NewExecution, register_flow
from queuemgr.flows.outcomes import Failed
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue_many
from queuemgr.models import Attempt, AuditEntry, Execution, Queue, Worker
from queuemgr.operations import dead_letters
from queuemgr.scheduling import limit_rows
from tests.integration.cli.commands import queue

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "https://files.example/x?signature=s3cr3t"


@pytest.fixture(autouse=True)
def _nothing_is_sent(sent: list[Any]) -> None:
    limit_rows.sync()


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """Another flow that takes probes."""
    before = dict(flows._flows)
    register_flow(Flow("elsewhere", flows.get_flow("probe").phases))
    yield "elsewhere"
    flows._flows.clear()
    flows._flows.update(before)


def failed(played: Callable[..., Any], *keys: str, **payload: Any) -> None:
    worker = played(slots=len(keys))
    enqueue_many("probe", [NewExecution(key, payload) for key in keys])
    dispatch()
    for grant in worker.begin_all():
        worker.end(grant, Failed("not_found", "404"), next_too=False)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def states() -> dict[str, str]:
    return dict(Execution.objects.order_by("flow", "key").values_list("key", "state"))


def test_failures_are_written_with_their_payloads_in_which_secrets_are_masked(
    played: Any, tmp_path: Path
) -> None:
    failed(played, "a", "b", "c", trace=SECRET, seconds=2)
    enqueue_many("probe", [NewExecution("waits")])
    path = tmp_path / "failed.jsonl"
    assert queue("failed", "export", path, "--kind", "not_found", "--limit", 2).out == "2 exported\n"
    assert [line["key"] for line in lines(path)] == ["a", "b"]
    [line] = [line for line in lines(path) if line["key"] == "a"]
    assert (line["flow"], line["error_kind"], line["error"], line["priority"]) == (
        "probe", "not_found", "404", "normal",
    )  # fmt: skip
    assert line["payload"] == {"trace": "https://files.example/x?***", "seconds": 2}
    assert "s3cr3t" not in path.read_text()
    assert queue("failed", "export", "-", "--flow", "papers").out == ""


def test_a_file_retries_its_failures_with_its_payloads_and_does_nothing_twice(
    played: Any, tmp_path: Path
) -> None:
    failed(played, "a", "b", trace=SECRET, seconds=2)
    path = tmp_path / "failed.jsonl"
    queue("failed", "export", path)
    path.write_text(path.read_text().replace('"seconds": 2', '"seconds": 1'))
    assert queue("failed", "import", path).out == "2 retried, 0 new, 0 unchanged, 0 bad\n"
    assert Execution.objects.get(key="a").payload == {"trace": SECRET, "seconds": 1}
    assert set(states().values()) <= {"waiting", "leased"}
    assert queue("failed", "import", path).out == "0 retried, 0 new, 2 unchanged, 0 bad\n"
    failed(played, "other")
    worker = played(slots=9)
    dispatch()
    for grant in worker.begin_all():
        worker.end(grant, Failed("not_found", "404"), next_too=False)
    assert states() == {"a": "failed", "b": "failed", "other": "failed"}
    assert queue("failed", "import", path).out == "0 retried, 0 new, 2 unchanged, 0 bad\n"
    assert AuditEntry.objects.filter(action="retry").count() == 2


def test_failures_of_another_database_are_enqueued_unless_a_value_is_masked(
    played: Any, tmp_path: Path
) -> None:
    failed(played, "a", "b", seconds=2)
    failed(played, "c", trace=SECRET)
    path = tmp_path / "failed.jsonl"
    queue("failed", "export", path)
    Attempt.objects.all().delete()
    Execution.objects.all().delete()
    done = queue("failed", "import", path)
    assert done.lines[0] == "0 retried, 2 new, 0 unchanged, 1 bad"
    assert done.lines[1].startswith("line 3: ") and "holds a mask" in done.lines[1]
    assert done.code == 2
    assert Execution.objects.get(key="a").payload == {"seconds": 2}
    assert AuditEntry.objects.filter(action="enqueue").count() == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "no line of `queue failed export`"),
        ('{"flow": "probe", "payload": {}}', "key"),
        ('{"flow": "probe", "key": "k", "payload": 3}', "a payload is a JSON object"),
        ('{"flow": "probe", "key": "k", "payload": {}, "priority": "soon"}', "priority 'soon'"),
        ('{"flow": "probe", "key": "k", "payload": {}, "finished": 3}', "no ISO 8601 time"),
        ('{"flow": "nonsense", "key": "k", "payload": {}}', "no flow is called"),
        ('{"flow": "papers", "key": "k", "payload": {}}', "makes keys itself"),
        (f'{{"flow": "{"x" * 1_000_001}"}}', "characters"),
    ],
    ids=range(10),
)
def test_a_line_that_cannot_be_taken_is_named_and_the_others_are(
    line: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "failed.jsonl"
    path.write_text(f'{line}\n{{"flow": "probe", "key": "good", "payload": {{}}}}\n')
    done = queue("failed", "import", path)
    assert done.lines[0] == "0 retried, 1 new, 0 unchanged, 1 bad"
    assert done.lines[1].startswith("line 1: ")
    assert said in done.lines[1]


def test_failures_are_handed_over_to_another_flow_once(played: Any, elsewhere: str) -> None:
    failed(played, "a", "b", trace=SECRET)
    enqueue_many(elsewhere, [NewExecution("b")])
    assert queue("failed", "hand-over", "--to", elsewhere, "--reason", "try there").out == (
        "1 handed over, 1 already there, 0 refused\n"
    )
    handed = Execution.objects.get(flow=elsewhere, key="a")
    assert handed.payload == {"trace": SECRET}
    here = Execution.objects.get(flow="probe", key="a")
    assert here.state == "skipped"
    assert here.wait_reason.endswith("handed over to elsewhere: try there")
    assert queue("failed", "hand-over", "--to", elsewhere).out == (
        "0 handed over, 0 already there, 0 refused\n"
    )


def test_what_another_flow_will_not_take_stays_failed(played: Any, elsewhere: str) -> None:
    failed(played, "a", "b")
    Worker.objects.update(seen_at="2020-01-01T00:00Z")
    Queue.objects.update(max_pending=1)
    assert queue("failed", "hand-over", "--to", elsewhere).code == 3
    assert sorted(Execution.objects.filter(flow="probe").values_list("state", flat=True)) == [
        "failed", "skipped",
    ]  # fmt: skip
    assert Execution.objects.filter(flow=elsewhere).count() == 1
    assert "makes keys and payloads itself" in queue("failed", "hand-over", "--to", "papers").error
    assert "no flow is called" in queue("failed", "hand-over", "--to", "nonsense").error


def test_no_more_is_read_than_the_bound(played: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dead_letters, "CHUNK", 2)
    failed(played, *"abcde")
    rows = dead_letters.failures(None, None)
    assert [line["key"] for line in dead_letters.exported(rows, 3)] == ["a", "b", "c"]


WRONG: tuple[Any, ...] = (
    None, True, 1.5, 10**300, "", [], {}, [[]], {"a": 1}, "x\x00", "\x1b[31mred", "\u202e", "a" * 300,
    "9999-12-31T23:59:59+14:00", "0001-01-01T00:00:00-14:00", "\ud800", "a" * 1_000_001,
)  # fmt: skip
NO_LINES = (
    "NaN", "[", '"', "[" * 1_000_000, '{"a":' * 500_000, "1" * 5000, "x" * 11_000_000, "\x1b]0;title\x07",
    '{"flow": "probe", "key": "k", "payload": {"a": NaN}}',
    '{"flow": "probe", "key": "k", "payload": {"a": 1e999}}',
    f'{{"flow": "probe", "key": "k", "payload": {{"a": {"[" * 500}1{"]" * 500}}}}}',
    f'{{"flow": "probe", "key": "k", "payload": {{"a": {"1" * 4400}}}}}',
)  # fmt: skip


def test_a_hostile_file_is_refused_line_by_line_and_what_is_valid_in_it_is_taken(
    played: Any, tmp_path: Path
) -> None:
    """Every member with every kind of value, lines of megabytes, and the same key again and again."""
    failed(played, "mine")
    whole = {"flow": "probe", "key": "mine", "payload": {"tenant": "a"}}
    changed = [
        json.dumps({**whole, name: value})
        for name in ("flow", "key", "payload", "priority") for value in WRONG
        if (name, value) not in (("payload", {}), ("payload", {"a": 1}))
    ]  # fmt: skip
    taken = [{**whole, "key": f"\x1b[31mk{n % 2}", "state": "done", "id": 1, "result": 1} for n in range(4)]
    path = tmp_path / "failed.jsonl"
    lines = [*changed, *NO_LINES, *map(json.dumps, taken)]
    path.write_bytes(b"\xff\xfe\n" + "\n".join(lines).encode("utf-8", "surrogatepass"))
    done = queue("failed", "import", path)
    keys = [row for row in changed if '"key": "' in row and "mine" not in row]
    said = [line for line in done.lines if not line.startswith("line ")]
    assert said == [f"0 retried, {2 + _storable(keys)} new, 2 unchanged, {len(done.lines) - 1} bad"]
    assert all(line.isprintable() and len(line) < 400 for line in done.lines)
    assert Execution.objects.get(key="mine").state == "failed"
    assert not Execution.objects.exclude(key="mine").exclude(state__in=("waiting", "leased")).exists()


def _storable(lines: list[str]) -> int:
    """Keys that are texts of at most 255 characters, without NUL and halves of characters."""
    keys = {json.loads(line)["key"] for line in lines}
    return sum(0 < len(key) <= 255 and "\x00" not in key and key != "\ud800" for key in keys)


@pytest.mark.parametrize("command", ["failed import", "import --flow probe"])
def test_what_is_no_file_of_lines_is_refused(command: str, tmp_path: Path) -> None:
    for file in (tmp_path, tmp_path / "none"):
        assert queue(*command.split(), file).code == 3


@pytest.mark.parametrize("command", ["failed export", "export --jsonl"])
def test_a_file_of_payloads_is_for_its_owner_only_and_one_that_was_there_keeps_its_permissions(
    command: str, played: Any, tmp_path: Path
) -> None:
    failed(played, "a")
    new, shared, elsewhere = (tmp_path / name for name in ("new", "shared", "elsewhere"))
    shared.touch()
    shared.chmod(0o640)
    elsewhere.write_text("not ours")
    (tmp_path / "link").symlink_to(elsewhere)
    before = os.umask(0)
    try:
        for path in (new, shared, tmp_path / "link"):
            assert queue(*command.split(), path).code == 0
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (new, shared)] == [0o600, 0o640]
    assert elsewhere.read_text() == "not ours"
    assert queue(*command.split(), tmp_path / "no folder" / "x").code == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "link", "new", "shared"]


def test_an_import_that_stops_at_its_bound_says_where_and_keeps_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_command, "MOST_LINES", 3)
    line = '{{"flow": "probe", "key": "{}", "payload": {{}}}}\n'
    path = tmp_path / "failed.jsonl"
    path.write_text("\n".join(line.format(key) for key in "abcde"))
    done = queue("failed", "import", path)
    assert done.code == 2
    assert done.lines[0] == "0 retried, 3 new, 0 unchanged, 0 bad"
    assert "line 7 and what follows was not read" in done.lines[1]
    assert "tail -n +7 FILE | queue failed import -" in done.lines[1]
    assert set(states()) == {"a", "b", "c"}
    path.write_text("\n".join(path.read_text().split("\n")[6:]))
    rest = queue("failed", "import", path)
    assert (rest.code, rest.lines) == (0, ["0 retried, 2 new, 0 unchanged, 0 bad"])
    path.write_text("".join(line.format(key) for key in "abc") + "\n\n")
    assert queue("failed", "import", path).code == 0


def test_what_was_not_exported_or_handed_over_is_said(
    played: Any, elsewhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(failed_command, "MOST", 2)
    failed(played, "a", "b", "c", "d", "e")
    path = tmp_path / "failed.jsonl"
    done = queue("failed", "export", path)
    assert (done.code, done.out, len(lines(path))) == (2, "2 exported\n", 2)
    assert "there are more than 2 failures" in capsys.readouterr().err
    assert queue("failed", "export", path, "--limit", 2).code == 0
    assert capsys.readouterr().err == ""
    for code, said in ((2, "there are more than 2 failures"), (2, "there are more"), (0, "")):
        handed = queue("failed", "hand-over", "--to", elsewhere)
        assert handed.code == code and said in handed.out
    assert not Execution.objects.filter(flow="probe").exclude(state="skipped").exists()
    assert Execution.objects.filter(flow=elsewhere).count() == 5
