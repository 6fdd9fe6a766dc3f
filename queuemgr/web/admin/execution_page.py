"""The page of one execution: state, reasons, history, limits, payload and actions.

It is read in a constant number of statements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from queuemgr.base.errors import UnknownFlow
from queuemgr.base.redaction import masked
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.time_text import duration_text
from queuemgr.flows import callbacks
from queuemgr.flows.callbacks import CallbackFailed
from queuemgr.flows.flow import PRIORITY_NAMES, Flow, Link, get_flow
from queuemgr.models import HELD, Attempt, AuditEntry, Execution, Lease, Limit, Route, State
from queuemgr.operations.bulk import audit_reader
from queuemgr.operations.user_model import User
from queuemgr.reporting import explain, queue_position
from queuemgr.reporting.explain import RouteReasons
from queuemgr.reporting.timeline import Entry, timeline
from queuemgr.reporting.waterfall import used_text, waterfall
from queuemgr.scheduling.claims import claims_of, rule_resolver
from queuemgr.scheduling.decision_input import NO_USE, Snapshot
from queuemgr.scheduling.snapshot import read_snapshot
from queuemgr.web.admin.execution_actions import (
    PAGE_ACTIONS,
    ActionForm,
    ExecutionAction,
    PayloadForm,
    TypedPayloadForm,
)
from queuemgr.web.admin.payload_fields import with_why_not
from queuemgr.web.admin.payload_members import Members, members_of
from queuemgr.web.links import address
from queuemgr.web.outside_links import outside_links, trace_of

STATE_LEVELS: Mapping[str, str] = {
    State.DONE: "good", State.RUNNING: "accent", State.LEASED: "accent", State.FAILED: "bad",
    State.CANCELLED: "quiet", State.SKIPPED: "quiet",
}  # fmt: skip
"""The colour of a state, beside its word."""

SHOWN = 100
"""Maximum number of attempts, and of audit entries: a step may snooze for weeks."""


@dataclass(frozen=True)
class LimitRow:
    """A limit that applies to it, its usage, and the reason if it blocks the execution."""

    name: str
    weight: int
    running: int
    cap: int
    address: str
    blocks: str = ""

    @property
    def share(self) -> int:
        """Usage in percent of the cap; 0 without one."""
        return min(100, round(100 * self.running / self.cap)) if self.cap else 0


@dataclass(frozen=True)
class OfferedAction:
    action: ExecutionAction
    form: ActionForm


def context(execution: Execution, user: User, typed: OfferedAction | None = None) -> dict[str, Any]:
    """The template's context; `typed`: a submitted form with errors."""
    snapshot = read_snapshot(database_now())
    reasons = explain.reasons(snapshot)
    lease: Lease | None = getattr(execution, "lease", None)  # Django raises where there is none
    newest = list(Attempt.objects.filter(execution=execution).order_by("-pk")[: SHOWN + 1])
    attempts, older = newest[:SHOWN][::-1], len(newest) > SHOWN
    changes = AuditEntry.objects.filter(target=str(execution)).order_by("-pk")[:SHOWN]
    enqueued, bulk_changes = None if older else execution.created_at, audit_reader.changes_of(execution)
    history = timeline(attempts, changes, enqueued, bulk_changes)
    sees_payload = user.has_perm("queuemgr.view_payload")
    return {
        "execution": execution,
        "priority": PRIORITY_NAMES.get(execution.priority, execution.priority),
        "step": f"{execution.phase}/{execution.step}",
        "why": reasons.of(execution),
        "not_before": reasons.not_before(execution),
        "estimate": queue_position.estimate(execution, reasons),
        "limits": _limits(execution, lease, attempts, snapshot, reasons),
        "lease": lease,
        "lease_left": lease and duration_text((lease.expires_at - snapshot.now).total_seconds()),
        "worker": lease and lease.worker and address("queuemgr_worker_change", lease.worker.pk),
        "history": list(map(_line, history)),
        "level": STATE_LEVELS.get(execution.state, ""),
        "waterfall": waterfall([*history, *_now(execution, lease, attempts)], attempts, snapshot.now),
        "used": used_text(attempts),
        "traced": next((attempt for attempt in reversed(attempts) if attempt.traceback), None),
        "logged": sees_payload and next((each for each in reversed(attempts) if each.log), None),
        "older": older,
        "attempts_address": address("queuemgr_attempt_changelist", q=execution.key),
        "changes_address": address("queuemgr_auditentry_changelist", target=str(execution)),
        "action_address": address("queuemgr_execution_action", execution.pk),
        "links": _links(execution),
        "batch": execution.batch and (execution.batch, address("queuemgr_batch_change", execution.batch.pk)),
        "trace": trace_of(execution),
        "elsewhere": outside_links(execution),
        "sees_payload": sees_payload,
        "unique_key": masked(execution.unique_key) if execution.holds_unique_key(snapshot.now) else "",
        "payload": as_text(masked(execution.payload)) if sees_payload else "",
        "context": as_text(masked(execution.context)) if sees_payload else "",
        "result": as_text(masked(execution.result)) if sees_payload else "",
        **_offers(execution, user, typed),
    }


def _now(execution: Execution, lease: Lease | None, attempts: Sequence[Attempt]) -> list[Entry]:
    """What it does now, as the last bar of its waterfall."""
    if lease and lease.started_at:
        return [Entry(lease.started_at, "attempt", f"{lease.phase}/{lease.step} running", level="now")]
    if execution.state not in (State.WAITING, State.LEASED):
        return []
    since = max([execution.created_at, *(attempt.ended_at for attempt in attempts[-1:])])
    return [Entry(since, "wait", "waiting" if lease is None else "dispatched", level="now")]


def as_text(value: Any) -> str:
    """Indented JSON with sorted names."""
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def _offers(execution: Execution, user: User, typed: OfferedAction | None) -> dict[str, Any]:
    offered = {
        act.name: typed if typed and typed.action is act else _offered(act, execution)
        for act in PAGE_ACTIONS
        if act.allowed_to(user) and execution.state in act.states
    }
    # Entered values are kept even if the execution has changed meanwhile.
    if typed and typed.action.name not in offered:
        offered[typed.action.name] = typed
    return {
        "offered": offered,
        "simple": [one for name, one in offered.items() if name in SIMPLE],
        "asking": [one for name, one in offered.items() if name not in SIMPLE],
        "refused": typed if typed and typed.action.name in SIMPLE else None,
    }


SIMPLE = ("retry", "retry_from_start", "cancel", "skip")
"""Actions with a reason only, which share one field for it."""


def _offered(act: ExecutionAction, execution: Execution) -> OfferedAction:
    return OfferedAction(act, form_of(act, execution))


def form_of(act: ExecutionAction, execution: Execution, typed: Any = None) -> ActionForm:
    """The form of an action, filled from the execution or, if there is something, with what was typed."""
    shown = masked(execution.payload)
    initial = {
        "priority": execution.priority, "when": execution.run_after, "payload": as_text(shown),
    }  # fmt: skip
    how: dict[str, Any] = {"initial": initial, "auto_id": f"id_{act.name}_%s", "label_suffix": ""}
    kind = act.form or ActionForm
    if kind is not PayloadForm:
        return kind(typed, **how)
    members = _members(execution)
    if members.found is None or (typed is not None and "payload" in typed):
        return with_why_not(kind(typed, **how), members)
    return TypedPayloadForm(typed, members=members.found, before=shown, **how)


def _members(execution: Execution) -> Members:
    try:
        return members_of(get_flow(execution.flow))
    except UnknownFlow:
        return Members()


def _line(entry: Entry) -> dict[str, Any]:
    return {
        "entry": entry,
        "lasted": duration_text(entry.lasted.total_seconds()) if entry.lasted is not None else "",
        "address": _address_of(entry),
    }


def _address_of(entry: Entry) -> str:
    if entry.attempt:
        return address("queuemgr_attempt_change", entry.attempt)
    return address("queuemgr_bulkaction_change", entry.bulk_action) if entry.bulk_action else ""


def _limits(
    execution: Execution,
    lease: Lease | None,
    attempts: Sequence[Attempt],
    snapshot: Snapshot,
    reasons: RouteReasons,
) -> list[LimitRow]:
    """The limits it holds, waits for, or held last."""
    waiting = execution.state == State.WAITING
    last = attempts[-1] if attempts and execution.state not in HELD else None
    holder: Lease | Route | Attempt | None = lease or (execution.route if waiting else last)
    if holder is None:
        return []
    blocking = {r.limit: r.text for r in reasons.by_route.get(execution.route_id or 0, ())}
    claims = claims_of(holder.phase, holder.limit_keys, holder.resources, holder.weight)
    own_or_pattern = Q(name__in=[name for name, _ in claims]) | Q(name__endswith="*")
    rows = dict(Limit.objects.filter(own_or_pattern).values_list("name", "pk"))
    owner = rule_resolver(rows)
    return [
        LimitRow(
            name,
            weight,
            snapshot.use.get(name, NO_USE).running,
            snapshot.rule(name).max_running,
            address("queuemgr_limit_change", rows[row]) if (row := owner(name)) else "",
            blocking.get(name, "") if waiting else "",
        )
        for name, weight in claims
    ]


def _links(execution: Execution) -> list[Link]:
    """Links from its flow: its item's page and files. What a failing callback says has no address."""
    try:
        flow = get_flow(execution.flow)
    except UnknownFlow:
        return []
    links: list[Link] = []
    for name, read in (("page", _page_of), ("files", callbacks.artifacts)):
        try:
            links += read(flow, execution.key)
        except CallbackFailed as failure:
            links.append(Link(f"no {name}: {failure}", ""))
    return links


def _page_of(flow: Flow, key: str) -> list[Link]:
    address = callbacks.link(flow, key)
    return [Link("page", address)] if address else []
