"""What a bulk action changed, read back from the audit log, and restored.

The chunks were done in the order of ids, each with one entry. So the entry of an id is found by binary
search, and no execution is read that the action never changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from django.db.models import Sum

from queuemgr.flows.flow import PRIORITIES
from queuemgr.models import AuditEntry, BulkAction, Execution
from queuemgr.operations import placing
from queuemgr.operations.controls import Actor
from queuemgr.operations.executions import put_back, set_priority
from queuemgr.operations.placing import Answers, Question
from queuemgr.reporting.timeline import BulkChange
from queuemgr.steptools.number_ranges import numbers_in

MOST_ACTIONS = 10
"""Bulk actions that are searched for what they did to one execution."""


def count_after(action_id: int, cursor: int) -> int:
    """How many executions with ids above this one the action changed."""
    keys = _chunks_after(action_id, cursor)
    if not keys:
        return 0
    later = AuditEntry.objects.filter(pk__in=keys[1:]).aggregate(changed=Sum("affected"))["changed"]
    return len(_ids_above(_chunk(keys[0]), cursor)) + int(later or 0)


def ids_after(action_id: int, cursor: int, most: int) -> list[int]:
    """The first ids above this one that the action changed, ascending."""
    found: list[int] = []
    for key in _chunks_after(action_id, cursor):
        found += _ids_above(_chunk(key), cursor)
        if len(found) >= most:
            break
    return found[:most]


def to_restore_priorities(action_id: int, ids: Sequence[int]) -> Question:
    """What `restore_priorities` has to know of these."""
    before = {pk: _priority(words) for pk, words, _ in _changes_of(action_id, ids)} if ids else {}
    return placing.to_set_priority(lambda execution: before.get(execution.pk, execution.priority))


def restore_priorities(
    action_id: int, executions: Iterable[Execution], by: Actor, known: Answers | None = None
) -> int:
    """Give these the priority they had before the action, if they still have the one it gave them, which
    the scheduler lock keeps so. `known`: what `to_restore_priorities` asks. Returns how many were changed."""
    ids = sorted(execution.pk for execution in executions)
    alike: Mapping[tuple[str, str], list[int]] = defaultdict(list)
    for pk, before, after in _changes_of(action_id, ids):
        alike[before, after].append(pk)
    changed = 0
    for (before, after), some in alike.items():
        as_left = Execution.objects.filter(pk__in=some, priority=_priority(after)).only("pk")
        changed += set_priority(as_left, _priority(before), by, known)
    return changed


def put_back_cancelled(
    action_id: int, executions: Iterable[Execution], by: Actor, known: Answers | None = None
) -> int:
    """Have these wait again if the action cancelled them before they ran and nobody has touched them since.
    `known`: what `placing.to_put_back` asks. Returns how many were changed."""
    ids = sorted(execution.pk for execution in executions)
    cancelled = [pk for pk, _, after in _changes_of(action_id, ids) if after == "state cancelled"]
    action = BulkAction.objects.get(pk=action_id)
    then = Execution.objects.filter(
        pk__in=cancelled, finished_at__gte=action.started_at, finished_at__lte=action.finished_at
    )
    return put_back(then.only("pk"), by, known)


def changes_of(execution: Execution) -> list[BulkChange]:
    """What the newest bulk actions did to this execution, the latest first."""
    since = execution.created_at
    some = BulkAction.objects.filter(started_at__gte=since, up_to__gte=execution.pk, changed__gt=0)
    found = []
    for action in some.order_by("-pk")[:MOST_ACTIONS]:
        keys = _chunks_after(action.pk, execution.pk - 1)
        chunk = _chunk(keys[0]) if keys else None
        if chunk and (became := _words_about(chunk, execution.pk)):
            what = action.verb_in_words
            found.append(BulkChange(chunk.at, what, action.pk, chunk.actor, became, chunk.reason))
    return found


def _words_about(chunk: AuditEntry, pk: int) -> str:
    """What a chunk made of this execution; empty if it did not change it."""
    return next((words for words, some in chunk.after.items() if pk in numbers_in(some)), "")


def _priority(words: str) -> int:
    """The rank of `priority high`, as a chunk's entry words it."""
    return PRIORITIES[words.removeprefix("priority ")]


def _changes_of(action_id: int, ids: Sequence[int]) -> Iterator[tuple[int, str, str]]:
    """The ids among these that the action changed, with the words of before and after."""
    wanted = set(ids)
    for chunk in map(_chunk, _chunks_after(action_id, ids[0] - 1)):
        after = {pk: words for words, some in chunk.after.items() for pk in numbers_in(some)}
        for words, some in chunk.before.items():
            yield from ((pk, words, after[pk]) for pk in numbers_in(some) if pk in wanted)
        if max(after) >= ids[-1]:
            return


def _chunks_after(action_id: int, cursor: int) -> list[int]:
    """The entries of its chunks, in order, from the first with an id above this one."""
    chunks = AuditEntry.objects.filter(action_id=action_id, action__startswith="bulk ")
    keys = list(chunks.order_by("pk").values_list("pk", flat=True))
    return keys[bisect_right(keys, cursor, key=lambda pk: _ids_above(_chunk(pk), 0)[-1]) :]


def _chunk(key: int) -> AuditEntry:
    return AuditEntry.objects.get(pk=key)


def _ids_above(chunk: AuditEntry, cursor: int) -> list[int]:
    some = (pk for words in chunk.before.values() for pk in numbers_in(words))
    return sorted(pk for pk in some if pk > cursor)
