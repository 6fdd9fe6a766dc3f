"""Limits: their figures, what stands against them now, and who waits on them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from queuemgr import controls, explain, snapshot
from queuemgr.admin.pausing import PausingAdmin
from queuemgr.admin.read_only import by
from queuemgr.admission import FLEET, Use
from queuemgr.fleet_lock import database_now
from queuemgr.flow import all_phases
from queuemgr.models import Limit

if TYPE_CHECKING:
    _LimitForm = forms.ModelForm[Limit]
else:
    _LimitForm = forms.ModelForm

FIGURES = ("max_running", "reserved_high", "daily_budget")
KEY = re.compile(r"[^\s:*]+:[^\s*]*\*?")
NO_USE = Use()


def check_name(name: str) -> None:
    """Refuse names no work could ever run under, saying which there are."""
    phases = [f"phase:{phase}" for phase in all_phases()]
    if name == FLEET or name in phases:
        return
    if name.startswith("phase:") or not KEY.fullmatch(name) or name.endswith(":"):
        raise ValidationError(
            f"Not a limit's name. There are: {FLEET}; {', '.join(phases)}; a key such as "
            "host:arxiv.org:443; or a pattern such as host:*, with its star at the end."
        )


class LimitForm(_LimitForm):
    reason = forms.CharField(
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text="Why; kept in the record of changes.",
    )

    class Meta:
        model = Limit
        fields = ("name", *FIGURES)

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        check_name(name)
        return name

    def clean_daily_budget(self) -> int | None:
        budget: int | None = self.cleaned_data["daily_budget"]
        name = self.cleaned_data.get("name", self.instance.name)
        if budget is not None and name != FLEET and not name.startswith("phase:"):
            raise ValidationError("Only the fleet and phases have a budget.")
        return budget


@admin.register(Limit)
class LimitAdmin(PausingAdmin):
    form = LimitForm
    list_display = ("name", *FIGURES, "in_use", "spent", "paused", "waits")
    fields = ("name", *FIGURES, "reason")
    sortable_by = ()
    search_fields = ("name",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("queuemgr.add_limit"))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("name",) if obj else ()

    def save_model(self, request: HttpRequest, obj: Limit, form: Any, change: bool) -> None:
        changed = [f for f in FIGURES if not change or f in form.changed_data]
        figures = {figure: form.cleaned_data[figure] for figure in changed}
        if figures:
            why = by(request, form.cleaned_data["reason"])
            obj.pk = controls.edit_limit(obj.name, why, **figures).pk

    def read_page(self, rows: Sequence[Any]) -> None:
        super().read_page(rows)
        names = list(Limit.objects.values_list("name", flat=True))
        uses = snapshot.read(database_now()).use
        waits = waits_by_limit(names, explain.what_stops_work())
        for row in rows:
            own = {key: use for key, use in uses.items() if limit_of(key, names) == row.name}
            row.in_use = occupancy(row, own)
            row.spent = _spent(row, own.get(row.name, NO_USE))
            row.waits = "; ".join(waits[row.name])

    @admin.display(description="in use")
    def in_use(self, row: Any) -> str:
        return str(row.in_use)

    @admin.display(description="spent today", empty_value="")
    def spent(self, row: Any) -> str:
        return str(row.spent)

    @admin.display(description="who waits on it", empty_value="")
    def waits(self, row: Any) -> str:
        return str(row.waits)


def limit_of(key: str, names: Iterable[str]) -> str | None:
    """The row whose figures a key obeys: its own, else the longest pattern that matches."""
    patterns = [name for name in names if name.endswith("*") and key.startswith(name[:-1])]
    return key if key in names else max(patterns, key=len, default=None)


def occupancy(limit: Limit, uses: Mapping[str, Use]) -> str:
    """`3 / 10`; for a pattern, how many keys are in use under it and how full the fullest is."""
    cap = f"{limit.max_running:,}" if limit.max_running else "no cap"
    if not limit.name.endswith("*"):
        return f"{uses.get(limit.name, NO_USE).running:,} / {cap}"
    running = [use.running for use in uses.values() if use.running]
    keys = f"{len(running)} key{'' if len(running) == 1 else 's'}"
    return f"{keys}, the fullest {max(running)} / {cap}" if running else f"none / {cap} each"


def _spent(limit: Limit, use: Use) -> str:
    if limit.daily_budget is None:
        return f"{use.spent:,}" if use.spent else ""
    held = f" and {use.reserved:,} reserved" if use.reserved else ""
    return f"{use.spent:,}{held} of {limit.daily_budget:,}"


def waits_by_limit(
    names: Sequence[str], stopped: Iterable[explain.Stopped]
) -> defaultdict[str, list[str]]:
    """Sentences of who waits, by the row they wait on. A budget's begins with its limit's name."""
    waits: defaultdict[str, list[str]] = defaultdict(list)
    for stop in stopped:
        key = stop.text.split(" ")[0] if stop.limit == "budget" else stop.limit
        row = limit_of(key, names)
        if row is not None:
            waits[row].append(f"{stop.waiting:,} wait: {stop.text}")
    return waits
