"""However work comes in: a full queue takes what it accepts, says so, and the rest comes in next time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline import intake
from pipeline.management.commands import up
from pipeline.models import FLOW, Document
from queuemgr.base.errors import QueueFull
from queuemgr.lifecycle.enqueue import atomically, enqueue_many
from queuemgr.models import AuditEntry, Execution, State
from queuemgr.operations import batches, controls, executions
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from queuemgr.worker import beat, housekeeping
from tests.integration.cli.commands import queue

pytestmark = pytest.mark.django_db(transaction=True)

ANN = Actor("ann", "test")
CAP, COUNT = 4, 10
ITEMS = [f"10.1000/{number}" for number in range(COUNT)]


@pytest.fixture(autouse=True)
def _a_capped_queue(sent: list[Any]) -> None:
    limit_rows.sync()
    controls.edit_queue("prep.normal", ANN, max_pending=CAP)


def _catalogue(tmp_path: Any) -> str:
    path = tmp_path / "items.txt"
    path.write_text("\n".join(ITEMS))
    return str(path)


def _held_then(backfill: Callable[[], str]) -> Callable[[Any], str]:
    def come_in(tmp_path: Any) -> str:
        intake.store_items(map(intake.parse_item, ITEMS))
        return backfill()

    return come_in


def _job() -> str:
    housekeeping.release("seed", 60)
    return f"{beat.backfill.run()['papers']} started, full"


def _refused(enter: Callable[[], object]) -> str:
    try:
        enter()
    except QueueFull as full:
        return str(full)
    return "all"


def _batch(tmp_path: Any) -> str:
    if not batches.Batch.objects.exists():
        batches.open_batch("nightly", FLOW, ANN)
    return queue("import", "--batch", "nightly", _catalogue(tmp_path)).error


def _parsed() -> list[Any]:
    return [intake.parse_item(item) for item in ITEMS]


PATHS: dict[str, Callable[[Any], str]] = {
    "the periodic backfill": _held_then(_job),
    "queue backfill": _held_then(lambda: queue("backfill").out),
    "queue enqueue": lambda tmp_path: queue("enqueue", *ITEMS).error,
    "queue import": lambda tmp_path: queue("import", _catalogue(tmp_path)).error,
    "queue import into a batch": _batch,
    "up": lambda tmp_path: str(up._enqueue(ITEMS).full),
    "enqueue_many": lambda tmp_path: _refused(lambda: enqueue_many(FLOW, _parsed())),
    "enqueue_many in one transaction": lambda tmp_path: _refused(
        lambda: atomically(lambda: enqueue_many(FLOW, _parsed()))
    ),
}


@pytest.mark.parametrize("path", PATHS)
def test_a_full_queue_takes_what_it_accepts_says_so_and_continues_next_time(path: str, tmp_path: Any) -> None:
    for taken in (CAP, 2 * CAP, COUNT):
        said = PATHS[path](tmp_path)
        assert Execution.objects.count() == taken
        assert ("full" in said) == (taken < COUNT) or path == "the periodic backfill"
        assert Document.objects.filter(key__in=Execution.objects.values("key")).count() == taken
        _let_it_drain()
    assert Document.objects.count() == COUNT


def _let_it_drain() -> None:
    executions.cancel(Execution.objects.filter(state=State.WAITING), ANN)


def test_what_up_could_not_enqueue_is_held_and_started_as_the_queue_drains() -> None:
    """Its drain continues with the held documents, and ends when none is left."""
    assert up._enqueue(ITEMS).enqueued.new == CAP
    assert Document.objects.count() == COUNT

    class Out(list[str]):
        def isatty(self) -> bool:
            return False

        def write(self, text: str) -> None:
            self.append(text)

        def flush(self) -> None: ...

    drained = up._drain_all(Out(), check=_let_it_drain)
    assert drained.exit_code == 0
    assert Execution.objects.count() == COUNT


def test_the_count_of_a_backfill_into_a_full_queue_is_recorded() -> None:
    intake.store_items(map(intake.parse_item, ITEMS))
    assert queue("backfill").lines == [
        f"papers: {CAP} started; queue prep.normal is full: {CAP} wait, its max_pending is {CAP}; "
        f"{CAP} were enqueued before. Wait until it drains, or raise max_pending"
    ]
    assert AuditEntry.objects.filter(action="enqueue").latest("pk").affected == CAP
