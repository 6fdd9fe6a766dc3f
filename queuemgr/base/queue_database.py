"""The one database of the queue: the alias in `DATABASES` that `SLUICE_DATABASE` names.

All tables, locks and transactions of the queue are there, so that an `enqueue()` in a transaction of that
database commits or is rolled back with it. Every module takes its connection from here and its transactions
from `queuemgr.base.transaction`, none from `django.db`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from queuemgr.base.config import queue_settings

APP = "queuemgr"


def alias() -> str:
    """The alias of the queue's database; the settings say the same in every process of a project."""
    return queue_settings().database


def get_connection() -> BaseDatabaseWrapper:
    """This thread's connection to it."""
    return connections[alias()]


KINDS = {
    "sqlite3": "sqlite", "spatialite": "sqlite", "postgresql": "postgresql", "postgis": "postgresql",
    "mysql": "mysql", "oracle": "oracle", "dummy": "not stated", "": "not stated",
}  # fmt: skip
"""What Django's own engines are, by the last part of their name."""


def vendor() -> str:
    """Its kind, as Django calls it: `postgresql`, `sqlite`, or what else the settings name. No driver is
    loaded for an engine of Django's, since that of a database we refuse may be missing."""
    engine = str(connections.settings.get(alias(), {}).get("ENGINE", "")).rpartition(".")[2]
    return KINDS[engine] if engine in KINDS else get_connection().vendor


def alias_of(model: Any) -> str:
    """The alias where rows of a model of the project, such as its accounts, are written."""
    return str(router.db_for_write(model))


class _Connection:
    """This thread's connection to it, whichever thread asks; as `django.db.connection` is to `default`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(connections[alias()], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(connections[alias()], name, value)


connection = cast(BaseDatabaseWrapper, _Connection())


class QueueRouter:
    """Sends the queue's models to its database, and makes their tables in no other."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return alias() if model._meta.app_label == APP else _elsewhere(router.db_for_read, model, hints)

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return alias() if model._meta.app_label == APP else _elsewhere(router.db_for_write, model, hints)

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return db == alias() if app_label == APP else None

    def allow_relation(self, one: Any, other: Any, **hints: Any) -> bool | None:
        """A row of ours may name one of an application, as a token does its owner, wherever that is."""
        return True if APP in (one._meta.app_label, other._meta.app_label) else None


def _elsewhere(route: Callable[[Any], str], model: Any, hints: Mapping[str, Any]) -> str | None:
    """Where a row of the project is that one of ours names, as a token does its owner: Django would look
    where the row is that names it."""
    naming = hints.get("instance")
    is_ours = naming is not None and naming._meta.app_label == APP
    return route(model) if is_ours else None


def install_router() -> None:
    """Ask our router before those of the project, which may send all models elsewhere, as to a replica."""
    if not any(isinstance(each, QueueRouter) for each in router.routers):
        router.routers.insert(0, QueueRouter())
