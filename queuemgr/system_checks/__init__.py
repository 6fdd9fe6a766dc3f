"""Django's system checks of the queue: what would fail later is said by `manage.py check`, with the remedy.

Every id is a row of docs/checks.md. The checks in `live` ask the database, and only where Django was asked to
(`check --database default`, `migrate`, tests).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.core.checks import CheckMessage, Tags, register

TAG = "queuemgr"


def install() -> None:
    """Register the checks; what they import is imported when they run."""
    _register("project", "settings_and_apps")
    _register("database_settings", "database")
    _register("celery_settings", "application")
    _register("celery_settings", "for_deployment", deploy=True)
    _register("tasks", "declarations")
    _register("web_pages", "web_pages")
    _register("live", "database", Tags.database)


def _register(module: str, name: str, *tags: str, **options: Any) -> None:
    def check(**kwargs: Any) -> list[CheckMessage]:
        found: list[CheckMessage] = getattr(import_module(f"{__name__}.{module}"), name)(**kwargs)
        return found

    register(check, TAG, *tags, **options)
