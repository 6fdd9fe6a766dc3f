"""Saving and deleting views of lists. Those that are shared are recorded in the audit log."""

from __future__ import annotations

from django.db import IntegrityError
from django.db.models import Q, QuerySet

from queuemgr.base import transaction
from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import is_storable
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import SavedView
from queuemgr.models.saved_views import MAX_VIEW_NAME, MAX_VIEW_QUERY
from queuemgr.operations.controls import ABSENT, Actor
from queuemgr.operations.user_model import key_text

SAVE, DELETE = "save view", "delete view"

MOST = 50
"""Views of one list that one person may have, and that are shared: all are on its page."""

EXECUTIONS = "queuemgr.execution"


def visible(of_list: str, user_key: object) -> QuerySet[SavedView]:
    """The views of this list that this account may open: its own and those shared."""
    return SavedView.objects.filter(Q(owner_key=key_text(user_key)) | Q(shared=True), list=of_list)


def shared_view(of_list: str, name: str) -> SavedView:
    """Raises `BadInput`, which names those that there are."""
    shared = SavedView.objects.filter(list=of_list, shared=True)
    found = shared.filter(name=name[:MAX_VIEW_NAME]).first() if is_storable(name) else None
    if found is None:
        names = ", ".join(map(repr, shared.values_list("name", flat=True)[:MOST])) or "none"
        raise BadInput(f"no shared view is called {name[:MAX_VIEW_NAME]!r}; there are: {names}")
    return found


@transaction.atomic
def save(of_list: str, name: str, query: str, by: Actor, *, shared: bool) -> SavedView:
    """Keep a view, in place of the one that this person has under the name. Raises `BadInput`."""
    name, mine = name.strip(), key_text(by.user_id)
    _check(name, query)
    others = SavedView.objects.filter(list=of_list, shared=True).exclude(owner_key=mine, name=name)
    if shared and (theirs := others.filter(name=name).first()):
        raise BadInput(f"a view of {theirs.owner} that everybody sees is called {name!r}: take another name")
    if shared and others.count() >= MOST:
        raise BadInput(f"{MOST} views of this list are shared already: delete one first")
    own = SavedView.objects.select_for_update().filter(list=of_list, owner_key=mine)
    row = own.filter(name=name).first()
    if row is None and own.count() >= MOST:
        raise BadInput(f"you have {MOST} views of this list already: delete one first")
    before = _shown(row) if row else ABSENT
    was_shared = row is not None and row.shared
    row = row or SavedView(list=of_list, name=name, owner_key=mine, created_at=database_now())
    row.owner, row.query, row.shared = by.actor, query, shared
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise BadInput(f"a view called {name!r} was saved at the same moment: look at it first") from None
    if shared or was_shared:
        by.record(SAVE, _target(row), before, _shown(row))
    return row


@transaction.atomic
def delete(row: SavedView, by: Actor) -> None:
    if row.shared:
        by.record(DELETE, _target(row), _shown(row), ABSENT)
    row.delete()


def _check(name: str, query: str) -> None:
    if not (name and name.isprintable() and len(name) <= MAX_VIEW_NAME and is_storable(name)):
        raise BadInput(f"a view has a name of 1 to {MAX_VIEW_NAME} characters that can be printed")
    if len(query) > MAX_VIEW_QUERY or not is_storable(query):
        raise BadInput(f"these filters are longer than {MAX_VIEW_QUERY:,} characters, too long to be saved")


def _target(row: SavedView) -> str:
    return f"view {row.name} of {row.list.partition('.')[2]}"


def _shown(row: SavedView) -> dict[str, object]:
    return {"query": row.query, "shared": row.shared, "owner": row.owner}
