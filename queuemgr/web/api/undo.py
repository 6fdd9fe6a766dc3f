"""Undoing a change through the API, with the permissions that doing the same by hand asks for."""

from __future__ import annotations

from django.http import HttpRequest

from queuemgr.base.errors import CannotUndo
from queuemgr.models import AuditEntry
from queuemgr.operations import undo
from queuemgr.web.api.auth import actor_of, caller_of
from queuemgr.web.api.problems import Problem


def undo_by(request: HttpRequest, change: AuditEntry, reason: str) -> AuditEntry:
    """The entry of the undo. Raises `Problem` 409, which says why it cannot be undone."""
    try:
        for permission in undo.permissions(change):
            caller_of(request).require("operate", permission.removeprefix("queuemgr."))
        return undo.undo(change, actor_of(request, reason))
    except CannotUndo as error:
        raise Problem("conflict", str(error)) from None
