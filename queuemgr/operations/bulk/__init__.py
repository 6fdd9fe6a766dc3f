"""Bulk actions: one action applied to all executions that match a filter.

A person previews, starts, watches and stops one; `chunk` carries it out chunk by chunk, and `runner` calls
that in the background. What it may change is fixed when it is created: executions with ids up to `up_to`
that match the filter and did not end after its creation. So work that is enqueued later, or fails again
after its retry, is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from django.db.models import Count, Max, Q

from queuemgr.base import transaction
from queuemgr.base.after_commit import after_commit
from queuemgr.base.config import queue_settings
from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import clean
from queuemgr.base.scheduler_lock import database_now
from queuemgr.lifecycle import publish
from queuemgr.models import UNBOUNDED, ActionState, BulkAction, Execution, ExecutionQuerySet, State
from queuemgr.operations import user_model
from queuemgr.operations.bulk import audit, audit_reader
from queuemgr.operations.bulk.actions import PUT_BACK, RESTORE, Action, action_named
from queuemgr.operations.controls import Actor
from queuemgr.reporting.filtering import executions_matching

SAMPLE = 20
COUNTED = 50_000
"""How far a preview counts, in some tens of milliseconds; a created action is counted in full."""

AT_ONCE = 1_000
"""Up to so many retries run without a rate unless one is given; more run at the rate of the settings."""

UNDONE_BY: Mapping[str, Action] = {"priority": RESTORE, RESTORE.name: RESTORE, "cancel": PUT_BACK}
"""The actions that can be undone, and what does it; for others, start the opposite action."""

SCOPE = "operate"
"""The scope of tokens that start one."""

TASK = "queuemgr.bulk"
"""The Celery task that works on actions; see `runner`."""


@dataclass(frozen=True)
class BulkRequest:
    """What a person requests. `per_minute`: rows a minute, None for the settings' rate, 0 for none; only
    ids above `after` and up to `up_to` (None: the highest there is)."""

    action: str
    filters: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    per_minute: int | None = None
    up_to: int | None = None
    after: int = 0


@dataclass(frozen=True)
class BulkPreview:
    """What an action would change, counted up to `COUNTED` rows in all.

    `matched`: the number it would change; `left_alone`: the others that match the filter, by state;
    `more`: there are more than were counted; `sample`: some of those it would change.
    """

    action: Action
    arguments: Mapping[str, Any]
    matched: int
    more: bool
    left_alone: Mapping[str, int]
    sample: Sequence[Execution]
    up_to: int
    per_minute: int


def preview(request: BulkRequest) -> BulkPreview:
    """What this would change now; changes nothing. Raises `BadInput` for an invalid action, argument or
    filter."""
    action = action_named(request.action)
    arguments = action.checked(request.arguments)
    up_to = _up_to(request)
    matching = executions_matching(request.filters).filter(pk__gt=request.after, pk__lte=up_to)
    eligible = matching.filter(action.eligible(arguments))
    by_state = _by_state(matching)
    matched = int(eligible.order_by()[: COUNTED + 1].count())
    already = sum(n for state, n in by_state.items() if state in action.states) - matched
    left = {state: n for state, n in by_state.items() if state not in action.states}
    return BulkPreview(
        action=action,
        arguments=arguments,
        matched=min(matched, COUNTED),
        more=matched > COUNTED or sum(by_state.values()) > COUNTED,
        left_alone=left | ({"already as requested": already} if already > 0 else {}),
        # Whichever are found first, so that no index is read to its end for an order nobody needs.
        sample=sorted(eligible.order_by().defer(*UNBOUNDED)[:SAMPLE], key=attrgetter("pk")),
        up_to=up_to,
        per_minute=rate_for(action, matched, request.per_minute),
    )


def rate_for(action: Action, matched: int, per_minute: int | None) -> int:
    """Rows a minute: as requested, else the settings' rate for many retries, else 0 for no rate."""
    if per_minute is not None:
        return per_minute
    many = action.starts_again and matched > AT_ONCE
    return queue_settings().bulk_retries_per_minute if many else 0


def create(request: BulkRequest, by: Actor) -> BulkAction:
    """Store a previewed action, counted in full, to be started with `start`.

    Raises `BadInput` for an invalid request, and when it would change nothing.
    """
    action = action_named(request.action)
    created = BulkAction(
        verb=action.name,
        arguments=action.checked(request.arguments),
        filters=dict(request.filters),
        actor=by.actor,
        previewed_by=by.actor,
        source=by.source,
        user_id=user_model.whole_number(by.user_id),
        account=user_model.key_text(by.user_id),
        token_id=by.token_id,
        reason=clean(by.reason)[:200],
        up_to=_up_to(request),
        cursor=request.after,
        created_at=database_now(),
    )
    if action.from_audit_log:
        undone = get_or_error(created.arguments["undoes"])
        created.matched = audit_reader.count_after(undone.pk, created.cursor)
    else:
        created.matched = eligible(created).count()
    if not created.matched:
        raise BadInput(
            f"there is nothing to {action.title}: no execution that matches the filter would change"
        )
    created.per_minute = rate_for(action, created.matched, request.per_minute)
    created.save()
    return created


def start(action_id: int, by: Actor, confirm: int | None = None) -> BulkAction:
    """Start a previewed action, in the name of whoever starts it; the housekeeping worker is notified on
    commit.

    Raises `BadInput` when it was started before, and for one that ends or discards work without a reason
    and the count of what it changes.
    """
    with transaction.atomic():
        action = _locked(action_id)
        if action.state != ActionState.PREVIEWED:
            raise BadInput(f"bulk action #{action_id} is {action.state}: it was started before")
        action.state = ActionState.RUNNING
        action.actor, action.source = by.actor, by.source
        action.user_id, action.account = user_model.whole_number(by.user_id), user_model.key_text(by.user_id)
        action.token_id = by.token_id
        action.reason = clean(by.reason)[:200] or action.reason
        check_reason(action_named(action.verb), action.reason)
        _check_count(action, confirm)
        action.started_at = action.due_at = database_now()
        action.save()
        audit.record_start(action, by)
        after_commit(notify)
    return action


@transaction.atomic
def begin(request: BulkRequest, by: Actor, confirm: int | None = None) -> BulkAction:
    check_reason(action_named(request.action), by.reason)
    return start(create(request, by).pk, by, confirm)


def _check_count(action: BulkAction, confirm: int | None) -> None:
    """Raise `BadInput` where it would change more than was confirmed. More than a preview counts is
    confirmed by any number beyond that."""
    if not action_named(action.verb).irreversible:
        return
    if confirm is None or (action.matched > confirm and confirm <= COUNTED):
        raise BadInput(
            f"{action.verb_in_words} would change {action.matched:,} executions: give confirm "
            f"{action.matched} to start it"
        )


def check_reason(action: Action, reason: str) -> None:
    """Raise `BadInput` where nothing undoes the action and no reason is given."""
    if action.irreversible and not reason.strip():
        raise BadInput(f"give a reason: what {action.title} does cannot be undone")


def notify() -> None:
    """Send a message for a slice of work; without a broker the next tick sends one."""
    publish.periodic_job(TASK)


def stop(action_id: int, by: Actor) -> BulkAction:
    """Stop after the chunk under way. What it changed stays changed.

    Raises `BadInput` when it is neither running nor previewed.
    """
    with transaction.atomic():
        action = _locked(action_id)
        if action.state not in (ActionState.RUNNING, ActionState.PREVIEWED):
            raise BadInput(f"bulk action #{action_id} is {action.state}: there is nothing to stop")
        action.state, action.stopped_by = ActionState.STOPPED, by.actor
        action.finished_at = database_now()
        action.save()
        audit.record_end(action, by, "stop bulk action")
    return action


def stop_for(action_id: int, why: str) -> None:
    """Stop a running action whose starter may not continue, for this reason; nothing if it runs no longer."""
    with transaction.atomic():
        action = _locked(action_id)
        if action.state != ActionState.RUNNING:
            return
        action.state, action.finished_at = ActionState.STOPPED, database_now()
        action.problem = "\n".join(filter(None, (action.problem, f"stopped: {why}")))
        action.save()
        audit.record_end(action, replace(audit.ITSELF, reason=why), "stop bulk action")


def resume(action_id: int, by: Actor) -> BulkAction:
    """Start a new action with what a stopped or failed one left over; raises `BadInput` for others."""
    old = get_or_error(action_id)
    if old.state not in (ActionState.STOPPED, ActionState.FAILED):
        raise BadInput(f"bulk action #{action_id} is {old.state}: only a stopped one can be resumed")
    rest = BulkRequest(old.verb, old.filters, old.arguments, old.per_minute, old.up_to, old.cursor)
    return begin(rest, by, old.matched)


def undo(action_id: int, by: Actor) -> BulkAction:
    """Start an action that restores the priorities this one changed, or puts back what it cancelled before it
    ran, where nobody has changed that since. Raises `BadInput` for other actions, and while it runs."""
    check_undoable(action_id)
    restores = UNDONE_BY[get_or_error(action_id).verb]
    return begin(BulkRequest(restores.name, arguments={"undoes": action_id}), by)


def check_undoable(action_id: int) -> None:
    """Raise `BadInput`, with the reason, when this action cannot be undone."""
    action = get_or_error(action_id)
    if action.verb not in UNDONE_BY:
        raise BadInput(f"what {action.verb_in_words} does is not undone: start the opposite action")
    if action.state == ActionState.RUNNING:
        raise BadInput(f"bulk action #{action_id} is still running: stop it, then undo it")


def get_or_error(action_id: int) -> BulkAction:
    """The action of this id; raises `BadInput` when there is none."""
    action = BulkAction.objects.filter(pk=action_id).first()
    if action is None:
        raise BadInput(f"there is no bulk action #{action_id}; `queue bulk list` shows them")
    return action


def eligible(action: BulkAction) -> ExecutionQuerySet:
    """The executions above its cursor that it would change now."""
    unchanged = Q(finished_at__isnull=True) | Q(finished_at__lte=action.created_at)
    return executions_matching(action.filters).filter(
        action_named(action.verb).eligible(action.arguments),
        unchanged,
        pk__gt=action.cursor,
        pk__lte=action.up_to,
    )


def _locked(action_id: int) -> BulkAction:
    get_or_error(action_id)
    return BulkAction.objects.select_for_update().get(pk=action_id)


def _up_to(request: BulkRequest) -> int:
    highest = int(Execution.objects.aggregate(highest=Max("pk"))["highest"] or 0)
    up_to = highest if request.up_to is None else min(request.up_to, highest)
    return max(up_to, request.after)


def _by_state(matching: ExecutionQuerySet) -> dict[str, int]:
    """How many are in each state, of the first `COUNTED + 1` found."""
    some = matching.order_by()[: COUNTED + 1]
    counts = some.aggregate(**{s.value: Count("pk", filter=Q(state=s)) for s in State})
    return {state: count for state, count in counts.items() if count}
