"""The flow whose executions are the deliveries of webhooks: one step, which sends one signed request.

It runs in a phase of the application, under a limit of its host and one of all deliveries: so it needs no
workers of its own, and a receiver that is slow keeps a few slots at most.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from celery import shared_task

from queuemgr.base.config import webhook_settings
from queuemgr.base.errors import BadInput, StepFailed
from queuemgr.base.redaction import without_secrets_in
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.webhook_signature import keys_by_name, signatures
from queuemgr.flows.flow import Context, Flow, Phase, Step
from queuemgr.flows.outcomes import Done, Result, Skipped, Snoozed
from queuemgr.flows.retry_policy import Policy, no_retry
from queuemgr.lifecycle.webhook_events import FLOW
from queuemgr.models import Execution, Webhook
from queuemgr.steptools import webhook_request, webhook_target
from queuemgr.steptools.webhook_target import FAILED, GONE, REFUSED, Target
from queuemgr.worker.leased_task import LeasedTask
from queuemgr.worker.work import Work

NAME, TASK = "deliver", "queuemgr.webhook"

ALL = "webhooks"
"""The limit of all deliveries together."""

ERROR_KINDS: Mapping[str, Policy] = {
    FAILED: Policy(12, 15, 21_600, 30, "a webhook's receiver gave no answer, or one other than 2xx"),
    GONE: no_retry("410: a webhook's receiver wants no more; the webhook is paused"),
    REFUSED: no_retry("a webhook's host has an address that is private or local"),
}
"""Twelve attempts take about eight and a half hours."""

LONGEST_WAIT = 86_400.0
"""Seconds that a receiver's Retry-After is followed."""

MOST_RESULT = 65_536
"""Characters of a result that is sent along."""

NO_APPLICATION = (Phase("probe", rank=0, waiting="waiting", running="running", steps=()),)
"""Its phase where no other flow is registered."""


def webhook_flow(phases: Sequence[Phase]) -> Flow:
    """The flow, in the phase that the settings name, else in the last of these."""
    phases = phases or NO_APPLICATION
    wanted = webhook_settings().webhook_phase
    phase = next((phase for phase in phases if phase.name == wanted), phases[-1])
    phases = (replace(phase, steps=(_STEP,), max_running=0),)
    return Flow(FLOW, phases, error_kinds=ERROR_KINDS, limit_names=(ALL, "webhook:*"))


def _keys(context: Context) -> tuple[str, ...]:
    return (str(context.get("limit", "")), ALL)


_STEP = Step(name=NAME, task=TASK, key=_keys)


@shared_task(base=LeasedTask, name=TASK)
def deliver(work: Work) -> Result:
    """Send one request; any answer but 2xx is a failure."""
    inputs = work.inputs
    with work.database():
        row = Webhook.objects.filter(name=str(inputs.get("webhook"))).first()
        if row is None or row.is_paused(database_now()):
            return Skipped(f"webhook {inputs.get('webhook')} is {'paused' if row else 'no more'}")
        data = {**inputs["data"], **_result_of(row, inputs)}
    target = _target_of(row)
    if target.limit != inputs["limit"]:
        return Snoozed(0, "the webhook has another host now", context={"limit": target.limit})
    body = json.dumps({"type": inputs["type"], "timestamp": inputs["timestamp"], "data": data}).encode()
    headers = _headers(str(inputs["id"]), body, row.secret)
    addresses = partial(webhook_target.addresses_of, target, allow_private=_may_be_private(row))
    seconds = webhook_settings().webhook_seconds
    answer = webhook_request.post(target, addresses, headers, body, seconds, work.signal)
    return _judged(answer, target)


def _target_of(row: Webhook) -> Target:
    try:
        return webhook_target.parse(row.url, allow_private=_may_be_private(row))
    except BadInput as error:
        raise StepFailed(REFUSED, str(error)) from error


def _may_be_private(row: Webhook) -> bool:
    """Both must say so: the row, which a person with that right edits, and this installation."""
    return row.allow_private and webhook_settings().webhook_allow_private


def _judged(answer: webhook_request.Answer, target: Target) -> Result:
    if 200 <= answer.status < 300:
        return Done()
    why = ": redirects are not followed" if 300 <= answer.status < 400 else ""
    waits = None if answer.retry_after is None else min(answer.retry_after, LONGEST_WAIT)
    raise StepFailed(
        GONE if answer.status == 410 else FAILED,
        f"{target.place} answered {answer.status}{why}",
        retry_after=waits,
        limit=target.limit,
    )


def _headers(message: str, body: bytes, secret: str) -> dict[str, str]:
    keys = keys_by_name(webhook_settings().webhook_secrets.get_secret_value()).get(secret)
    if not keys:
        raise StepFailed(FAILED, f"SLUICE_WEBHOOK_SECRETS of this worker has no secret called {secret}")
    now = int(time.time())
    return {
        "Content-Type": "application/json",
        "User-Agent": "Sluicegate",
        "webhook-id": message,
        "webhook-timestamp": str(now),
        "webhook-signature": signatures(keys, message, now, body),
    }


def _result_of(row: Webhook, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The result of the execution, without secrets, for a webhook that is to have it; null if it is too
    large."""
    if not row.include_result or inputs["type"] != "execution.finished":
        return {}
    ended = Execution.objects.filter(pk=inputs["data"]["execution"])
    result: Any = ended.values_list("result", flat=True).first()
    return {"result": without_secrets_in(result) if len(json.dumps(result)) <= MOST_RESULT else None}
