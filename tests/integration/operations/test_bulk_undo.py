"""Priorities a bulk action set are put back as they were, where nobody changed them since."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base.errors import CannotUndo
from queuemgr.flows.flow import HIGH, LOW, NORMAL
from queuemgr.models import AuditEntry, BulkAction, Execution, State
from queuemgr.operations import bulk, executions
from queuemgr.operations.bulk import BulkRequest, audit_reader, chunk
from queuemgr.operations.controls import Actor
from queuemgr.operations.undo import undo
from queuemgr.scheduling import limit_rows
from queuemgr.steptools.number_ranges import numbers_in, ranges
from tests.integration.operations.bulk_fixtures import ANN, carried_out, counts, started

pytestmark = pytest.mark.django_db
BOB = Actor("bob", "command", "wrong filter")


@pytest.fixture(autouse=True)
def _rows(sent: list[Any]) -> None:
    limit_rows.sync()


def mixed(probes: Any) -> dict[int, int]:
    """Twelve probes of three priorities in turn; the priority of each."""
    some = probes(12)
    for rank, start in ((LOW, 1), (HIGH, 2)):
        executions.set_priority(some[start::3], rank, ANN)
    return priorities()


def priorities() -> dict[int, int]:
    return dict(Execution.objects.order_by("pk").values_list("pk", "priority"))


def raised() -> BulkAction:
    return carried_out(started("priority", {}, arguments={"priority": "high"}), rows=3)


def start_of(action: BulkAction) -> AuditEntry:
    return AuditEntry.objects.get(action_id=action.pk, action="start bulk action")


def undoing(change: AuditEntry) -> BulkAction:
    """The action that undoes this change, carried out in small chunks."""
    undone = undo(change, BOB)
    assert undone.action_id
    return carried_out(bulk.get_or_error(undone.action_id), rows=5)


def test_each_execution_gets_the_priority_it_had(probes: Any) -> None:
    before = mixed(probes)
    action = raised()
    assert set(priorities().values()) == {HIGH}
    back = undoing(start_of(action))
    assert priorities() == before
    assert counts(back) == (8, 0, 0)
    assert (back.actor, back.reason) == ("bob", "wrong filter")
    assert start_of(back).undoes == start_of(action)


def test_undo_leaves_and_counts_what_was_moved_or_finished_since(probes: Any) -> None:
    before = mixed(probes)
    action = raised()
    low = [pk for pk, rank in before.items() if rank == LOW]
    executions.set_priority(Execution.objects.filter(pk=low[0]), NORMAL, BOB)
    Execution.objects.filter(pk=low[1]).update(state=State.DONE, finished_at=timezone.now(), route=None)
    back = undoing(start_of(action))
    assert counts(back) == (6, 2, 0)
    assert priorities() == {**before, low[0]: NORMAL, low[1]: HIGH}


def test_an_undo_can_itself_be_undone(probes: Any) -> None:
    mixed(probes)
    back = undoing(start_of(raised()))
    undoing(start_of(back))
    assert set(priorities().values()) == {HIGH}


def test_what_a_stopped_action_did_is_undone_and_only_that(probes: Any) -> None:
    before = mixed(probes)
    action = started("priority", {}, arguments={"priority": "high"})
    chunk.change_next(action.pk, rows=3)
    with pytest.raises(CannotUndo, match="is still running: stop it"):
        undo(start_of(action), BOB)
    bulk.stop(action.pk, ANN)
    assert counts(undoing(start_of(action))) == (3, 0, 0)
    assert priorities() == before


def test_a_stopped_undo_can_be_resumed(probes: Any) -> None:
    before = mixed(probes)
    undone = undo(start_of(raised()), BOB)
    assert undone.action_id
    chunk.change_next(undone.action_id, rows=3)
    bulk.stop(undone.action_id, BOB)
    rest = bulk.resume(undone.action_id, BOB)
    assert rest.matched == 5
    assert counts(carried_out(rest, rows=2)) == (5, 0, 0)
    assert priorities() == before


def test_an_action_is_undone_once_and_only_as_a_whole(probes: Any) -> None:
    mixed(probes)
    action = raised()
    undo(start_of(action), BOB)
    with pytest.raises(CannotUndo, match="undone already, by bob"):
        undo(start_of(action), ANN)
    of_chunk = AuditEntry.objects.filter(action="bulk priority").latest("pk")
    with pytest.raises(CannotUndo, match="'bulk priority' is not undone"):
        undo(of_chunk, ANN)


def test_the_command_says_that_the_undo_runs_in_the_background(probes: Any) -> None:
    mixed(probes)
    change, out = start_of(raised()), StringIO()
    call_command("queue", "undo", str(change.pk), stdout=out)
    back = BulkAction.objects.latest("pk")
    assert f"audit entry {change.pk} is being undone in the background by restore #" in out.getvalue()
    assert f"`queue bulk show {back.pk} --watch`" in out.getvalue()


def test_bulk_actions_that_ended_work_are_not_undone(probes: Any) -> None:
    probes(2)
    action = carried_out(started("skip", {}))
    with pytest.raises(CannotUndo, match="start the opposite action"):
        undo(start_of(action), BOB)


def test_restore_cannot_be_started_as_a_verb() -> None:
    assert "restore" not in bulk.actions.ACTIONS
    with pytest.raises(bulk.BadInput, match="there is no bulk action #99"):
        bulk.create(BulkRequest("restore", arguments={"undoes": 99}), ANN)


@given(st.sets(st.integers(1, 300)))
def test_ids_written_as_ranges_are_read_back(ids: set[int]) -> None:
    assert list(numbers_in(ranges(ids))) == sorted(ids)


def test_the_record_is_read_from_any_id_on(probes: Any) -> None:
    before = mixed(probes)
    action = raised()
    touched = [pk for pk, rank in before.items() if rank != HIGH]
    for cursor in (0, *before):
        later = [pk for pk in touched if pk > cursor]
        assert audit_reader.ids_after(action.pk, cursor, 4) == later[:4]
        assert audit_reader.count_after(action.pk, cursor) == len(later)
