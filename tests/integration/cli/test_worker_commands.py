"""`queue worker list`, `drain` and `resume`."""

from __future__ import annotations

from typing import Any

import pytest

from queuemgr.models import AuditEntry, WorkerDrain
from tests.integration.cli.commands import queue

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nothing_sent(transactional_db: None, sent: list[Any]) -> None:
    """Draining and resuming dispatch."""


def test_a_worker_is_drained_and_resumed_and_the_list_says_who_did_and_why(make_worker: Any) -> None:
    make_worker(name="steps@a", slots=3)
    done = queue("worker", "drain", "steps", "--reason", "new disk")
    assert (done.code, done.out.strip()) == (0, "steps@a drained: it takes no new work")
    assert "was drained already" in queue("worker", "drain", "steps@a").out
    (row,) = queue("worker", "list", "--json").records
    assert (row["worker"], row["condition"], row["slots"]) == ("steps@a", "drained", 3)
    assert row["drained"].startswith(f"drained by {row['drained_by']} since")
    assert row["drain_reason"] == "new disk"
    assert "new disk" in queue("worker", "list").out
    assert "drained by" in queue("stats").out
    assert queue("worker", "resume", "steps").out.strip() == "steps@a resumed"
    assert "was not drained" in queue("worker", "resume", "steps").out
    assert not WorkerDrain.objects.exists()


def test_a_name_no_worker_has_is_refused_with_those_there_are(make_worker: Any) -> None:
    make_worker(name="steps@a")
    for action in ("drain", "resume"):
        refused = queue("worker", action, "stpes")
        assert refused.code == 3
        assert "there are: steps@a" in refused.error
    assert not AuditEntry.objects.exists()


def test_a_drain_is_undone_by_command(make_worker: Any) -> None:
    make_worker(name="steps@a")
    queue("worker", "drain", "steps@a")
    queue("undo", str(AuditEntry.objects.get().pk))
    assert not WorkerDrain.objects.exists()
