"""What services answer of their limits: reported for the whole fleet by running leases, and by their ends."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from queuemgr.base import transaction
from queuemgr.base.meters import MAX_AMOUNT, TOKENS, Amounts, amounts_of, meters
from queuemgr.base.provider_left import Answer
from queuemgr.base.scheduler_lock import locked_at
from queuemgr.flows.outcomes import Done, Failed, Result, Snoozed
from queuemgr.lifecycle import leases
from queuemgr.lifecycle.outcome_rules import OutcomeEffects
from queuemgr.scheduling import provider_limits, wakeups
from queuemgr.scheduling.claims import service_keys
from queuemgr.scheduling.limit_rules import rules_of
from queuemgr.scheduling.provider_limits import Change, Changes, Ended, limits_meant
from queuemgr.steptools.rate_limit_headers import Remaining


class Reported(NamedTuple):
    """What an answer says is left, in the smallest parts of meters, and what is reserved for its lease."""

    left: Amounts
    reserved: Amounts


@transaction.atomic
def reported(lease_id: UUID, said: Mapping[str, Remaining], sent: float, limit: str = "") -> Reported | None:
    """Have the fleet know what the answer to a request of this lease says is left; None if the lease is gone.
    `sent`: when, by `time.monotonic()`. `limit`: the limit meant, if it is known.

    Rows are locked in the order in which the end of a lease locks them: its own, then those of limits.
    """
    lease = leases.set_answered(lease_id)
    if lease is None:
        return None
    now = locked_at([lease.now])
    answers = _answers(said, now.timestamp(), ago=max(0.0, time.monotonic() - sent))
    if answers:
        more = provider_limits.change(_by_limit(answers, limit, lease.limit_keys, now))
        wakeups.post(limits=more)
    left = {meter: answer.remaining for meter, answer in answers.items()}
    return Reported(left, amounts_of(lease.cost, lease.uses))


def _answers(said: Mapping[str, Remaining], now: float, ago: float) -> dict[str, Answer]:
    return {
        meter: Answer(
            now - ago, min(left.remaining * meters()[meter].scale, MAX_AMOUNT), now + left.resets_in
        )
        for meter, left in _known(said).items()
    }


def _known(said: Mapping[str, Remaining]) -> dict[str, Remaining]:
    """By meters there are: tokens of prompts and of answers count as tokens where neither is a meter."""
    known: dict[str, Remaining] = {}
    for meter, left in said.items():
        name = meter if meter in meters() else TOKENS
        if name == meter or TOKENS not in said:
            known[name] = min(known.get(name, left), left, key=lambda each: each.remaining)
    return known


def _by_limit(answers: Mapping[str, Answer], limit: str, limit_keys: str, now: datetime) -> Changes:
    several = not limit and len(service_keys(limit_keys)) > 1
    rules = rules_of(limit_keys.split(), now) if several else {}
    changes: dict[str, dict[str, Change]] = {}
    for meter, answer in answers.items():
        for name in (limit,) if limit else limits_meant(limit_keys, meter, rules):
            changes.setdefault(name, {})[meter] = provider_limits.answered(answer, now)
    return changes


def of_service(result: Result) -> Result:
    """How the service did: as the step says, else as the step did."""
    said = result.service_result if isinstance(result, Snoozed | Done) else None
    return said or result


def refused_meter(result: Result) -> str:
    """The meter of which a service that refused for a rate has too little left, where that is known."""
    return result.meter if isinstance(result, Failed) and result.kind == "rate_limited" else ""


def reported_by(effects: Sequence[OutcomeEffects], now: datetime) -> Changes:
    """What these ends change of what is known: refusals for a meter, and what ended without an answer."""
    unanswered = [e for e in effects if not e.lease.answered]
    ended = [
        Ended(e.lease.limit_keys, e.lease.started_at, amounts)
        for e in unanswered
        if e.lease.started_at and (amounts := amounts_of(e.attempt.cost, e.attempt.uses))
    ]
    changes = {name: dict(acts) for name, acts in provider_limits.of_ended(ended, now).items()}
    for e in effects:
        result = of_service(e.result)
        if (meter := refused_meter(result)) and isinstance(result, Failed) and result.blames_service:
            rules = rules_of(e.lease.limit_keys.split(), now) if e.lease.limit_keys else {}
            named = (result.limit,) if result.limit else limits_meant(e.lease.limit_keys, meter, rules)
            for name in named:
                acts = changes.setdefault(name, {})
                acts[meter] = provider_limits.after(acts.get(meter), provider_limits.refused(result, now))
    return changes
