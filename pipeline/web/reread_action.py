"""The admin's action that has papers read again by OCR, behind a page that says what that may take."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from pipeline.models import FLOW, Document
from pipeline.rereading import estimate, papers_by_ocr
from queuemgr import NewExecution, QueueFull, enqueue_many
from queuemgr.extend.admin import actor_of, render_page
from queuemgr.extend.cli import audited_enqueue

MOST, SHOWN = 1_000, 5
"""Papers at once, and refusals that are shown."""


class ReasonForm(forms.Form):
    reason = forms.CharField(max_length=200, required=False, help_text="For the audit log.")


@admin.action(description="Read again by OCR…", permissions=["enqueue"])
def reread(modeladmin: Any, request: HttpRequest, chosen: QuerySet[Document]) -> HttpResponse | None:
    """Every page of the papers that are ticked, and what depends on their text."""
    if (chosen_in_all := chosen.count()) > MOST:
        messages.error(
            request,
            f"{chosen_in_all:,} papers are chosen and at most {MOST:,} are read again at once: nothing was "
            "enqueued. Choose fewer, or give a list with force_ocr to queue import.",
        )
        return None
    new, refused = papers_by_ocr(list(chosen.order_by("pk").values_list("key", flat=True)))
    if "reason" not in request.POST:
        return _asks(modeladmin, request, chosen, new, refused)
    try:
        with audited_enqueue(FLOW, actor_of(request)) as counted:
            done = counted(enqueue_many(FLOW, new))
    except QueueFull as full:
        messages.warning(request, str(full))
        return None
    messages.success(request, f"Read again by OCR: {done}.")
    for why in _first(refused):
        messages.warning(request, why)
    return None


def _first(refused: list[str]) -> list[str]:
    """The first of them, and how many there are besides."""
    others = len(refused) - SHOWN
    return [*refused[:SHOWN], *([f"{others:,} others are being read, too."] if others > 0 else [])]


def _asks(
    modeladmin: Any, request: HttpRequest, chosen: Any, new: list[NewExecution], refused: list[str]
) -> HttpResponse:
    """The page before, with the expected cost."""
    said = [f"{estimate(new)}.", "Their analyses and reports are made again, too.", *_first(refused)]
    return render_page(
        request, "stop_with_reason", opts=modeladmin.opts, title="Read papers again by OCR", verb="Reread",
        explanation=" ".join(said), rows=chosen, checkbox=helpers.ACTION_CHECKBOX_NAME,
        form=ReasonForm(),
    )  # fmt: skip
