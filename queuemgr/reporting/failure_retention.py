"""How long the failures of each flow are kept, and who says so.

A person's row comes first, then what the flow declares (`keep_failed_days`), then SLUICE_KEEP_FAILED_DAYS.
"""

from __future__ import annotations

from typing import NamedTuple

from queuemgr.base.config import queue_settings
from queuemgr.flows.flow import all_flows
from queuemgr.models import FlowRetention

SETTING = "SLUICE_KEEP_FAILED_DAYS"
PERSON, CODE = "a person", "code"


class Kept(NamedTuple):
    """For how many days failures of a flow are kept (0: for ever), and who says so."""

    flow: str
    days: float
    stated_by: str

    @property
    def text(self) -> str:
        return days_text(self.days)


def days_text(days: float) -> str:
    return f"for {days:g} days" if days else "for ever"


def kept() -> list[Kept]:
    """Of each flow that this process knows, and each that a person has stated it for, by name."""
    stated = dict(FlowRetention.objects.values_list("flow", "keep_failed_days"))
    declared = {flow.name: flow.keep_failed_days for flow in all_flows()}
    return [_kept(flow, stated.get(flow), declared.get(flow)) for flow in sorted({*declared, *stated})]


def _kept(flow: str, stated: float | None, declared: float | None) -> Kept:
    if stated is not None:
        return Kept(flow, stated, PERSON)
    if declared is not None:
        return Kept(flow, declared, CODE)
    return Kept(flow, queue_settings().keep_failed_days, SETTING)


def of_their_own() -> dict[str, float]:
    """Days by flow, of those that do not follow the setting."""
    return {each.flow: each.days for each in kept() if each.stated_by != SETTING}
