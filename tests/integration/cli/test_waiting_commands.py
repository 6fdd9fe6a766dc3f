"""Commands that wait for work say why it does not move when only a person or another day can change that."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest

from queuemgr.cli import batch as batch_commands
from queuemgr.cli import drain
from queuemgr.cli.exit_codes import LEFT
from queuemgr.models import Batch
from queuemgr.operations import batches, controls, workers
from queuemgr.operations.controls import Actor
from queuemgr.reporting.stuck import stuck, stuck_members
from queuemgr.scheduling import limit_rows
from tests.integration.cli.commands import queue
from tests.usage_rows import spend_requests

pytestmark = pytest.mark.django_db(transaction=True)
ANN = Actor("ann", "command", "new disk")


def drained_workers() -> None:
    for name in ("steps@a", "steps@b"):
        workers.drain(name, ANN)


def everything_paused() -> None:
    controls.pause("everything", ANN)


def budget_spent() -> None:
    controls.edit_limit("fleet", ANN, daily_budget=1)
    spend_requests("fleet", 1)


STOPS: dict[str, tuple[Callable[[], None], tuple[str, ...]]] = {
    "drained": (
        drained_workers,
        ("no live worker takes work from prep.normal: steps@a drained by ann since", ": new disk; ",
         "`queue worker resume steps@a`; 1 more drained"),
    ),
    "paused": (everything_paused, ("paused by ann: new disk",)),
    "budget": (budget_spent, ("fleet requests 1 of 1 per day spent",)),
}  # fmt: skip


@pytest.fixture(params=STOPS)
def told(request: pytest.FixtureRequest, played: Any) -> tuple[str, ...]:
    """Three members that wait behind two workers, and a stop; what is to be said of it."""
    limit_rows.sync()
    for name in ("steps@a", "steps@b"):
        played(slots=2, name=name)
    stop, words = STOPS[request.param]
    stop()
    queue("batch", "open", "b", "--flow", "probe")
    queue("enqueue", "--flow", "probe", "--batch", "b", "--requests", 1, "--count", 3)
    return ("3 wait: ", *words)


@pytest.fixture
def gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The person who waits cancels the batch at the second look."""
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            batches.cancel(Batch.objects.get(), ANN)
        assert len(looks) < 9, "the command never ends"

    monkeypatch.setattr(batch_commands.time, "sleep", sleep)


def run_drained(capsys: pytest.CaptureFixture[str]) -> str:
    drained = drain.drain(StringIO())
    assert drained.exit_code == LEFT
    return "".join(each.text for each in drained.stopped) + f"{drained.stopped[0].waiting} wait: "


def watched(capsys: pytest.CaptureFixture[str]) -> str:
    return queue("batch", "show", "b", "--watch").out


def watched_as_json(capsys: pytest.CaptureFixture[str]) -> str:
    first, *_ = queue("batch", "show", "b", "--watch", "--json").records
    return "".join(first["stopped"])


def followed(capsys: pytest.CaptureFixture[str]) -> str:
    assert "wait" not in queue("batch", "results", "b", "--jsonl", "--follow").out
    return capsys.readouterr().err


@pytest.mark.usefixtures("gives_up")
@pytest.mark.parametrize("command", [run_drained, watched, watched_as_json, followed])
def test_who_waits_reads_what_stops_the_work(
    command: Any, told: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = command(capsys)
    assert [words for words in told if words not in said] == [], said
    assert said.count("3 wait: ") == 1, "once"


def test_a_batch_that_still_moves_is_not_called_stopped(played: Any) -> None:
    limit_rows.sync()
    worker = played(slots=1, name="steps@a")
    queue("batch", "open", "b", "--flow", "probe")
    queue("enqueue", "--flow", "probe", "--batch", "b", "--count", 3)
    (running,) = worker.begin_all()
    workers.drain("steps@a", ANN)
    assert (stuck(), stuck_members(Batch.objects.get())) == ([], []), "one still runs"
    worker.end(running, next_too=False)
    assert {each.kind for each in (*stuck(), *stuck_members(Batch.objects.get()))} == {"drained"}
    workers.resume("steps@a", ANN)
    assert (stuck(), stuck_members(Batch.objects.get())) == ([], [])
