"""Number formats and links of the dashboard."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django import template
from django.utils.html import format_html

from queuemgr.base.time_text import duration_text, moment_text
from queuemgr.models import State
from queuemgr.models.alerts import MAX_CODE
from queuemgr.reporting import estimate_ranges
from queuemgr.reporting.dashboard.alarms import Alarm
from queuemgr.reporting.dashboard.limit_bars import LimitBar
from queuemgr.reporting.explain import Stopped
from queuemgr.reporting.failure_groups import FailureGroup
from queuemgr.reporting.remedies import Thing, remedy_of, thing_of
from queuemgr.scheduling.claims import FLEET
from queuemgr.web.act_links import act_link, thing_link, what_if_link
from queuemgr.web.links import address, link

register = template.Library()


@register.filter
def number(value: int | float) -> str:
    """`1,204`."""
    return f"{round(value):,}"


@register.filter
def span(value: timedelta | float | None) -> str:
    """`4 min 10 s`; nothing for None."""
    if value is None:
        return ""
    return duration_text(value.total_seconds() if isinstance(value, timedelta) else value)


@register.filter
def clock(value: datetime | None, now: datetime) -> str:
    """`14:32:07 UTC`, with the date on any other day; nothing for None."""
    return moment_text(value, now) if value else ""


@register.simple_tag
def about(value: datetime | None, of: estimate_ranges.Kind, now: datetime) -> str:
    """An estimate with its range; nothing for None."""
    return estimate_ranges.about(value, of, now)


@register.filter
def moment(value: datetime | None) -> str:
    """`2026-11-28 14:32:07 UTC`; nothing for None."""
    return moment_text(value) if value else ""


@register.filter
def percent(share: float | None) -> str:
    """A share of 0 to 1 as a width in percent, such as `42.5`; `0` for None."""
    return f"{100 * (share or 0.0):.4g}"


@register.simple_tag(takes_context=True)
def execution_count(context: Any, value: int, **filters: str) -> str:
    """A number of executions, linked to the list of them."""
    return _count(context, "execution", value, filters)


@register.simple_tag(takes_context=True)
def attempt_count(context: Any, value: int, **filters: str) -> str:
    """A number of attempts, linked to the list of them."""
    return _count(context, "attempt", value, filters)


def _count(context: Any, model: str, value: int, filters: Mapping[str, str]) -> str:
    page, may = f"queuemgr_{model}_changelist", f"view_{model}"
    return link_to(context, number(value), page, may=may, **filters) if value else number(value)


@register.simple_tag(takes_context=True)
def link_to(context: Any, text: str, page: str, *args: Any, may: str, **query: str) -> str:
    """A text, linked to a page of the admin if the user may see it."""
    allowed = context["request"].user.has_perm(f"queuemgr.{may}")
    return link(address(page, *args, **query) if allowed else "", text)


@register.simple_tag(takes_context=True)
def act(context: Any, kind: str, verb: str, name: str) -> str:
    """A link to doing this to the limit, queue or worker of this name, if the user may."""
    return act_link(context["request"].user, kind, verb, name)


@register.simple_tag(takes_context=True)
def what_if(context: Any, limit: str) -> str:
    """A link to what would become of a limit's allowances with other amounts, if the user may edit them."""
    return what_if_link(context["request"].user, limit)


@register.simple_tag(takes_context=True)
def named(context: Any, kind: str, name: str) -> str:
    """The name of a limit, queue or worker, linked to its page."""
    return thing_link(context["request"].user, Thing(kind, name), name)


@register.simple_tag(takes_context=True)
def why_waits(context: Any, stopped: Stopped) -> str:
    """Why work waits: a sentence linked to what it is about, and what can be done about it."""
    thing, remedy = thing_of(stopped.kind, stopped.limit), remedy_of(stopped.kind, stopped.limit)
    user = context["request"].user
    text = thing_link(user, thing, stopped.text) if thing else stopped.text
    return format_html("{} {}", text, act_link(user, *remedy) if remedy else "")


@register.simple_tag(takes_context=True)
def alarm_text(context: Any, alarm: Alarm) -> str:
    """An alarm, linked to what it is about, else to the part of the page with the details."""
    user = context["request"].user
    place = link(f"#dashboard-{alarm.about}", alarm.text)
    text = thing_link(user, alarm.thing, alarm.text) if alarm.thing else place
    remedy = act_link(user, *alarm.remedy) if alarm.remedy else ""
    return format_html("{} {} {}", text, remedy, silence_link(context, alarm.code))


@register.simple_tag(takes_context=True)
def silence_link(context: Any, code: str) -> str:
    """A link to silencing an alarm, for users who may."""
    if not context["request"].user.has_perm("queuemgr.silence_alert"):
        return ""
    return format_html(
        '<a class="sg-act" href="{}">Silence<span class="sg-only-read"> {}</span>…</a>',
        address("alert_silence", pattern=glob.escape(code)[:MAX_CODE]), code,
    )  # fmt: skip


@register.simple_tag(takes_context=True)
def waits_on(context: Any, bar: LimitBar) -> str:
    """The number of executions waiting on a limit, linked to the list of them."""
    phase = bar.name.removeprefix("phase:")
    if bar.name == FLEET:
        return execution_count(context, bar.waiting, state=State.WAITING)
    if phase != bar.name:
        return execution_count(context, bar.waiting, state=State.WAITING, phase=phase)
    if ":" not in bar.name:
        return number(bar.waiting)
    return execution_count(context, bar.waiting, state=State.WAITING, limit=bar.name)


@register.simple_tag(takes_context=True)
def retry_link(context: Any, group: FailureGroup) -> str:
    """A link to the preview of a bulk retry of a group, for users who may start one."""
    if not context["request"].user.has_perms(("queuemgr.retry_execution", "queuemgr.add_bulkaction")):
        return ""
    page = address(
        "bulk_new", verb="retry", state=State.FAILED,
        error_kind=group.kind, error_fingerprint=group.fingerprint,
    )  # fmt: skip
    return format_html('<a class="sg-button" href="{}">Retry these…</a>', page)
