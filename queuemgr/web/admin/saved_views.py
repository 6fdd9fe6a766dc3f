"""What the page of a list shows of its saved views."""

from __future__ import annotations

from dataclasses import dataclass

from django import forms
from django.contrib.admin.options import IS_FACETS_VAR, IS_POPUP_VAR
from django.contrib.admin.views.main import ALL_VAR, ERROR_FLAG, PAGE_VAR
from django.http import HttpRequest, QueryDict

from queuemgr.models import SavedView
from queuemgr.models.saved_views import MAX_VIEW_NAME, MAX_VIEW_QUERY
from queuemgr.operations import saved_views
from queuemgr.operations.user_model import key_text
from queuemgr.web.links import address

NOT_KEPT = (PAGE_VAR, ALL_VAR, ERROR_FLAG, IS_FACETS_VAR, IS_POPUP_VAR)
"""Parameters of a list that say nothing of what it shows."""

SHARE = "queuemgr.share_savedview"
DELETE_ANY = "queuemgr.delete_savedview"


class ViewForm(forms.Form):
    name = forms.CharField(max_length=MAX_VIEW_NAME, label="Name")
    shared = forms.BooleanField(required=False, label="for everybody")
    list = forms.CharField(widget=forms.HiddenInput)
    query = forms.CharField(
        max_length=MAX_VIEW_QUERY, required=False, widget=forms.HiddenInput, strip=False, label="Filters"
    )


@dataclass(frozen=True)
class ShownView:
    row: SavedView
    open: str
    delete: str
    """Its address; empty for who may not."""
    mine: bool
    chosen: bool


@dataclass(frozen=True)
class Views:
    """What the page of a list shows of its views."""

    shown: list[ShownView]
    form: ViewForm
    save: str
    may_share: bool


def views_of(request: HttpRequest, of_list: str) -> Views:
    user, here = request.user, kept(request.GET)
    mine, may_delete = key_text(user.pk), user.has_perm(DELETE_ANY)
    shown = [
        ShownView(
            row,
            address("savedview_open", row.pk),
            address("savedview_delete", row.pk) if row.owner_key == mine or may_delete else "",
            mine=row.owner_key == mine,
            chosen=row.query == here,
        )
        for row in saved_views.visible(of_list, user.pk)
    ]
    form = ViewForm(initial={"list": of_list, "query": here}, auto_id="id_view_%s", label_suffix="")
    return Views(shown, form, address("savedview_save"), user.has_perm(SHARE))


def kept(given: QueryDict) -> str:
    """Of the query string of a list what says what it shows."""
    found = given.copy()
    for name in NOT_KEPT:
        found.pop(name, None)
    return found.urlencode()
