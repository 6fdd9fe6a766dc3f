"""The admin's action that has papers read again by OCR, behind a page that says what that may take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from pipeline import intake
from pipeline.models import FLOW, Document
from pipeline.rereading import estimate, of_known
from queuemgr import BadInput, NewExecution, QueueFull, enqueue_many
from queuemgr.extend.admin import actor_of, render_page
from queuemgr.extend.cli import audited_enqueue

MOST = 100
"""Papers at once: what the list shows."""

FLAGS = {"force_ocr": True}


class ReasonForm(forms.Form):
    reason = forms.CharField(max_length=200, required=False, help_text="For the audit log.")


@admin.action(description="Read again by OCR…", permissions=["enqueue"])
def reread(modeladmin: Any, request: HttpRequest, chosen: QuerySet[Document]) -> HttpResponse | None:
    """Every page of the papers that are ticked, and what depends on their text."""
    keys = list(chosen.order_by("pk").values_list("key", flat=True)[:MOST])
    new, refused = _again(keys)
    if "reason" not in request.POST:
        return _asks(modeladmin, request, chosen, new, refused)
    try:
        with audited_enqueue(FLOW, actor_of(request)) as counted:
            done = counted(enqueue_many(FLOW, new))
    except QueueFull as full:
        messages.warning(request, str(full))
        return None
    messages.success(request, f"Read again by OCR: {done}.")
    for why in refused:
        messages.warning(request, why)
    return None


def _again(keys: Iterable[str]) -> tuple[list[NewExecution], list[str]]:
    """What reads them again, and why some are not."""
    new, refused = [], []
    for key in keys:
        try:
            new.append(intake.with_flags(of_known(key), FLAGS))
        except BadInput as error:
            refused.append(str(error))
    return new, refused


def _asks(
    modeladmin: Any, request: HttpRequest, chosen: Any, new: list[NewExecution], refused: list[str]
) -> HttpResponse:
    """The page before, with the expected cost."""
    said = [f"{estimate(new)}.", "Their analyses and reports are made again, too.", *refused[:5]]
    return render_page(
        request, "stop_with_reason", opts=modeladmin.opts, title="Read papers again by OCR", verb="Reread",
        explanation=" ".join(said), rows=chosen[:MOST], checkbox=helpers.ACTION_CHECKBOX_NAME,
        form=ReasonForm(),
    )  # fmt: skip
