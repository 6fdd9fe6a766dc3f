"""Bulk actions: any filter, a verb, and as many executions as there are.

A person previews, starts, watches and stops one; `bulk_step` carries it out, batch by batch, and
`bulk_runner` calls that in the background. What it may touch is fixed when it is made: executions with
ids up to `up_to`, that the filter meets, and that did not end after it was made. So work that comes in
later, or fails again after its retry, is not met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Count, Max, Q

from queuemgr.base.config import queue_settings
from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle import publish
from queuemgr.models import ActionState, BulkAction, Execution, ExecutionQuerySet, State
from queuemgr.operations.bulk import audit as bulk_record
from queuemgr.operations.bulk import audit_reader
from queuemgr.operations.bulk.actions import RESTORE, Action, action_named
from queuemgr.operations.controls import Actor
from queuemgr.reporting.filtering import executions_matching

SAMPLE = 20
COUNTED = 50_000
"""How far a preview counts: that takes some tens of milliseconds; what is started is counted in full."""

AT_ONCE = 1_000
"""Retries of up to so many go as fast as they can if nobody says otherwise; more trickle in."""

UNDOABLE = ("priority", RESTORE.name)
"""The verbs that are undone; for what starts or ends work, the opposite is."""

TASK = "queuemgr.bulk"
"""The chore that works on actions; see `bulk_runner`."""


@dataclass(frozen=True)
class Wanted:
    """What a person asks for. `per_minute`: None for what the settings say, 0 for no rate; `up_to`: the
    last id, None for the highest there is; `after`: the id to begin behind."""

    verb: str
    filters: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    per_minute: int | None = None
    up_to: int | None = None
    after: int = 0


@dataclass(frozen=True)
class Preview:
    """What an action would meet, counted up to `COUNTED` rows in all.

    `matched`: those it would change; `left_alone`: the others the filter meets, by state; `more`: there
    are more than were counted; `sample`: some of `matched`.
    """

    verb: Action
    arguments: Mapping[str, Any]
    matched: int
    more: bool
    left_alone: Mapping[str, int]
    sample: Sequence[Execution]
    up_to: int
    per_minute: int


def preview(wanted: Wanted) -> Preview:
    """What this would meet now; changes nothing. Raises `BadInput` for a verb, an argument or a filter
    that cannot be."""
    verb = action_named(wanted.verb)
    arguments = verb.checked(wanted.arguments)
    up_to = _up_to(wanted)
    met = executions_matching(wanted.filters).filter(pk__gt=wanted.after, pk__lte=up_to)
    eligible = met.filter(verb.eligible(arguments))
    by_state = _by_state(met)
    matched = int(eligible.order_by()[: COUNTED + 1].count())
    takes = {str(state) for state in verb.takes}
    already = sum(n for state, n in by_state.items() if state in takes) - matched
    left = {state: n for state, n in by_state.items() if state not in takes}
    return Preview(
        verb=verb,
        arguments=arguments,
        matched=min(matched, COUNTED),
        more=matched > COUNTED or sum(by_state.values()) > COUNTED,
        left_alone=left | ({"as wanted already": already} if already > 0 else {}),
        sample=_sample(eligible),
        up_to=up_to,
        per_minute=rate_for(verb, matched, wanted.per_minute),
    )


def rate_for(verb: Action, matched: int, per_minute: int | None) -> int:
    """The rows a minute it goes at: what was asked, else the setting for many retries, else no rate."""
    if per_minute is not None:
        return per_minute
    return (
        queue_settings().bulk_retries_per_minute if verb.starts_again and matched > AT_ONCE else 0
    )


def create(wanted: Wanted, by: Actor) -> BulkAction:
    """Write an action down, counted in full, for `start` to set going.

    Raises `BadInput`, also when there is nothing it would change.
    """
    verb = action_named(wanted.verb)
    action = BulkAction(
        verb=verb.name,
        arguments=verb.checked(wanted.arguments),
        filters=dict(wanted.filters),
        actor=by.actor,
        source=by.source,
        reason=clean(by.reason)[:200],
        up_to=_up_to(wanted),
        cursor=wanted.after,
        created_at=database_now(),
    )
    action.matched = _met(action, verb)
    if not action.matched:
        raise BadInput(
            f"there is nothing to {verb.name}: no execution the filter meets would change"
        )
    action.per_minute = rate_for(verb, action.matched, wanted.per_minute)
    action.save()
    return action


def start(action_id: int, by: Actor) -> BulkAction:
    """Set a previewed action going; the housekeeping worker begins at once.

    Raises `BadInput` when it was started before.
    """
    with transaction.atomic():
        action = _locked(action_id)
        if action.state != ActionState.PREVIEWED:
            raise BadInput(f"bulk action #{action_id} is {action.state}: it was started before")
        action.state = ActionState.RUNNING
        action.started_at = action.due_at = database_now()
        action.save()
        bulk_record.record_start(action, by)
        transaction.on_commit(ask)
    return action


def begin(wanted: Wanted, by: Actor) -> BulkAction:
    """Create an action and start it."""
    return start(create(wanted, by).pk, by)


def start_for_ids(
    verb: str, ids: Sequence[int], by: Actor, arguments: Mapping[str, Any] | None = None
) -> BulkAction:
    """Start an action on just these executions, at most `filtering.MOST_IDS`."""
    return begin(Wanted(verb, {"ids": list(ids)}, arguments or {}), by)


def ask() -> None:
    """Send a message for a slice of work; while the broker is away the tick sees to it."""
    publish.periodic_job(TASK)


def stop(action_id: int, by: Actor) -> BulkAction:
    """Let it change no more: the batch under way is its last. What it changed stays changed.

    Raises `BadInput` when it is not running.
    """
    with transaction.atomic():
        action = _locked(action_id)
        if action.state not in (ActionState.RUNNING, ActionState.PREVIEWED):
            raise BadInput(f"bulk action #{action_id} is {action.state}: there is nothing to stop")
        action.state, action.stopped_by = ActionState.STOPPED, by.actor
        action.finished_at = database_now()
        action.save()
        bulk_record.record_end(action, by, "stop bulk action")
    return action


def go_on(action_id: int, by: Actor) -> BulkAction:
    """Start a new action with what a stopped or failed one left; raises `BadInput` for others."""
    old = found(action_id)
    if old.state not in (ActionState.STOPPED, ActionState.FAILED):
        raise BadInput(f"bulk action #{action_id} is {old.state}: only a stopped one can go on")
    rest = Wanted(old.verb, old.filters, old.arguments, old.per_minute, old.up_to, old.cursor)
    return begin(rest, by)


def undo(action_id: int, by: Actor) -> BulkAction:
    """Start an action that puts back what this one changed, where nobody has changed it since; priorities
    only. Raises `BadInput` for others, and while it runs."""
    check_undoable(action_id)
    return begin(Wanted(RESTORE.name, arguments={"undoes": action_id}), by)


def check_undoable(action_id: int) -> None:
    """Raise `BadInput`, with the reason, where `undo` would for what the action is."""
    action = found(action_id)
    if action.verb not in UNDOABLE:
        raise BadInput(f"what {action.verb} does is not undone: start the opposite action")
    if action.state == ActionState.RUNNING:
        raise BadInput(f"bulk action #{action_id} runs still: stop it, then undo what it did")


def found(action_id: int) -> BulkAction:
    """The action of this number; raises `BadInput` when there is none."""
    action = BulkAction.objects.filter(pk=action_id).first()
    if action is None:
        raise BadInput(f"there is no bulk action #{action_id}; `queue bulk list` shows them")
    return action


def eligible(action: BulkAction) -> ExecutionQuerySet:
    """The executions it has still to look at and would change, as things are now."""
    verb = action_named(action.verb)
    unchanged = Q(finished_at__isnull=True) | Q(finished_at__lte=action.created_at)
    return executions_matching(action.filters).filter(
        verb.eligible(action.arguments), unchanged, pk__gt=action.cursor, pk__lte=action.up_to
    )


def _met(action: BulkAction, verb: Action) -> int:
    if verb.by_record:
        return audit_reader.count_after(found(action.arguments["undoes"]).pk, action.cursor)
    return eligible(action).count()


def _locked(action_id: int) -> BulkAction:
    found(action_id)
    return BulkAction.objects.select_for_update().get(pk=action_id)


def _up_to(wanted: Wanted) -> int:
    highest = int(Execution.objects.aggregate(highest=Max("pk"))["highest"] or 0)
    up_to = highest if wanted.up_to is None else min(wanted.up_to, highest)
    return max(up_to, wanted.after)


def _by_state(met: ExecutionQuerySet) -> dict[str, int]:
    """How many stand in each state, of the first so many that come."""
    some = met.order_by()[: COUNTED + 1]
    counts = some.aggregate(**{f"n_{s}": Count("pk", filter=Q(state=s)) for s in State})
    return {str(state): counts[f"n_{state}"] for state in State if counts[f"n_{state}"]}


def _sample(eligible: ExecutionQuerySet) -> list[Execution]:
    """Whichever come first, so that no index is read to its end for an order nobody needs."""
    some = eligible.order_by().defer("payload", "context")[:SAMPLE]
    return sorted(some, key=lambda execution: execution.pk)
