"""The search box, which is on every page of ours."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static

from queuemgr.reporting.search.found import kinds
from queuemgr.web import menu

PAGE, TEXT = "search_everything", "q"


def box(request: HttpRequest) -> dict[str, Any]:
    """What its template shows; nothing for who may search nothing."""
    action, may = menu.address_of(f"admin:{PAGE}", request), request.user.has_perm
    if not action or not any(may(kind.permission) for kind in kinds()):
        return {}
    text = request.GET.get(TEXT, "") if request.path == action else ""
    return {"action": action, "text": text, "name": TEXT, "script": static("queuemgr/search.js")}
