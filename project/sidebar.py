"""The menu of the admin: that of the queue, with the pages of papers, of Celery and of accounts."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from queuemgr.web import menu
from queuemgr.web.menu import API, FLOW_CONTROL, TOKENS, WORK, Entry, list_of

GROUPS: menu.Groups = (
    WORK,
    FLOW_CONTROL,
    (
        "Papers",
        (
            Entry("Collection", "menu_book", "collection", ("pipeline.view_document",)),
            list_of("Documents", "description", "pipeline.document"),
        ),
    ),
    (
        "Celery",
        (
            list_of("Task results", "task_alt", "django_celery_results.taskresult"),
            list_of("Group results", "folder", "django_celery_results.groupresult"),
        ),
    ),
    (
        "Access",
        (list_of("Users", "person", "auth.user"), list_of("Groups", "group", "auth.group"), TOKENS, API),
    ),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """unfold's callback for the groups of the menu; with Flower, if its address is configured."""
    flower = {
        "title": "Flower", "icon": "local_florist", "link": settings.SLUICE_FLOWER_URL, "external": True,
    }  # fmt: skip
    return menu.navigation(request, GROUPS, {"Celery": [flower]} if settings.SLUICE_FLOWER_URL else {})
