"""Opening the admin's pages and acting on their rows, as a browser would."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.urls import reverse

from queuemgr.models import Limit
from queuemgr.scheduling.limit_rows import LIMIT_FIELDS


def page(model: str, *args: Any, view: str = "changelist") -> str:
    return reverse(f"admin:queuemgr_{model}_{view}", args=args)


def act(client: Client, model: str, action: str, *rows: Any, **more: Any) -> Any:
    """Choose an action for these rows."""
    chosen = {"_selected_action": [row.pk for row in rows], "action": action}
    return client.post(page(model), {**chosen, **more}, follow=True)


def text_of(response: Any) -> str:
    assert response.status_code == 200
    return response.content.decode()


def figures_of(limit: Limit | None = None, **changed: Any) -> dict[str, Any]:
    """What the form of a limit (none: a new one) posts, with these figures changed."""
    row = limit or Limit()
    figures = {figure: getattr(row, figure) for figure in LIMIT_FIELDS}
    return {n: "" if v is None else v for n, v in {**figures, "reason": "", **changed}.items()}
