"""What is done to a limit by its name: pausing, resuming, closing its breaker, changing its cap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.base.time_text import moment_text
from queuemgr.models import Limit
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.operations.limit_names import why_none
from queuemgr.reporting import stats
from queuemgr.scheduling import limit_rows
from queuemgr.web.admin.named_actions import NamedAction, ReasonForm
from queuemgr.web.admin.pausing import PAUSE_AND_RESUME

LARGEST_CAP = 2**31 - 1


class CapForm(ReasonForm):
    max_running = forms.IntegerField(
        min_value=0,
        max_value=LARGEST_CAP,
        label="Cap",
        help_text="How many may run at once; 0: no cap. Lowered while busy, it only drains.",
        widget=forms.NumberInput(attrs={"autofocus": True}),
    )
    field_order = ("max_running", "reason")


def _unblock(name: str, given: Mapping[str, Any], by: Actor) -> str:
    closed = controls.reset_breakers([name], by)
    if not closed:
        raise BadInput("its breaker is closed, and its provider said nothing that holds work back")
    return f"Unblocked: {', '.join(closed[:20])}."


def _set_cap(name: str, given: Mapping[str, Any], by: Actor) -> str:
    cap = given["max_running"]
    controls.edit_limit(name, by, max_running=cap)
    return f"The cap of {name} is {cap:,} now." if cap else f"{name} has no cap now."


def _cap_now(name: str) -> Mapping[str, Any]:
    row = Limit.objects.filter(name=name).first() or limit_rows.new_limit(name)
    return {"max_running": row.max_running}


LIMIT_ACTIONS = (
    *PAUSE_AND_RESUME,
    NamedAction(
        "unblock", "Its breaker is closed at once, and what its provider said is left is forgotten: work "
        "starts as its caps and rates allow. Failures open it again.", _unblock,
    ),
    NamedAction(
        "cap", "The cap of this limit alone: a key gets a row of its own beside its pattern.",
        _set_cap, CapForm, _cap_now,
    ),
)  # fmt: skip


def sentences(name: str) -> Sequence[str]:
    """What a limit is now. Raises `BadInput` if there is none of this name."""
    now = stats.limit(name)
    if now is None:
        raise BadInput(why_none(name))
    running, cap = f"{now['running']:,}", now["max_running"]
    waiting = max((each["waiting"] for each in now["waiting_on_it"]), default=0)
    texts = [
        f"{running} of {cap:,} running." if cap else f"{running} running, no cap.",
        f"{waiting:,} wait on it." if waiting else "Nothing waits on it.",
    ]
    if now["paused"]:
        texts.append(f"{now['paused'][:1].upper()}{now['paused'][1:]}.")
    if now["open_until"]:
        texts.append(
            f"Blocked until {moment_text(now['open_until'], database_now())} ({now['open_reason']})."
        )
    elif now["half_open_starts"]:
        texts.append(f"Recovering, {now['half_open_starts']:,} at a time ({now['open_reason']}).")
    return texts
