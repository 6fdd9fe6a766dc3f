"""How to make what each system check of docs/checks.md finds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, current_app
from django.apps import apps
from django.conf import settings
from django.db import connections
from django.utils import timezone

from queuemgr import Flow, queued, register_flow
from queuemgr.base import sql
from queuemgr.base.unreachable import Problem
from queuemgr.models import Worker

POSTGRES = "django.db.backends.postgresql"
SQLITE = "django.db.backends.sqlite3"


@dataclass
class Scene:
    patch: pytest.MonkeyPatch
    fixture: Callable[[str], Any]
    made: ExitStack = field(default_factory=ExitStack)


Make = Callable[[Scene], object]


def database(engine: str = "", options: dict[str, Any] | None = None, **values: Any) -> Make:
    """Settings of the queue's database, read by no connection."""

    def make(scene: Scene) -> None:
        stated = {**connections.settings["default"], **values}
        stated["ENGINE"] = engine or stated["ENGINE"]
        stated["OPTIONS"] = options or {}
        scene.patch.setitem(connections.settings, "default", stated)

    return make


def celery(**values: Any) -> Make:
    def make(scene: Scene) -> None:
        scene.patch.delenv("CELERY_BROKER_URL", raising=False)
        for name, value in values.items():
            scene.patch.setitem(current_app.conf, name, value)

    return make


def an_app_left_out(scene: Scene) -> None:
    """Beside the project's app `mail`, a package `letters` with tasks."""
    place: Path = scene.fixture("tmp_path")
    for name in ("mail", "letters"):
        (place / name).mkdir()
        (place / name / "tasks.py").write_text("from queuemgr import queued\n")
    mail = SimpleNamespace(name="shop.mail", path=str(place / "mail"))
    scene.patch.setattr(apps, "get_app_configs", lambda: [mail])


def another_application(scene: Scene) -> None:
    scene.made.enter_context(Celery("another", set_as_current=False))


def two_values(scene: Scene) -> None:
    def first(host: str) -> None: ...
    def second(host: str) -> None: ...

    for number, function in enumerate((first, second), start=2):
        queued(name=f"stated.{function.__name__}", limits={"host:{host}": number})(function)


def unknown_annotation(scene: Scene) -> None:
    def send(letter: Letter) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    queued(name="stated.unknown")(send)


def no_json(scene: Scene) -> None:
    """A type that is known only after the task was declared."""
    names: dict[str, Any] = {"__name__": "stated"}
    exec("from __future__ import annotations\ndef send(lock: Lock) -> None: ...", names)
    queued(name="stated.no_json")(names["send"])
    exec("class Lock: ...", names)


def late(scene: Scene) -> None:
    register_flow(Flow("late", ()))


def answers(scene: Scene, **settings: str) -> None:
    """Have the database answer so when it is asked for these settings of its own."""
    ask = sql.value

    def value(statement: str, parameters: Any = ()) -> Any:
        return settings.get(statement.rpartition(" ")[2]) or ask(statement, parameters)

    scene.patch.setattr(sql, "value", value)


def no_log_file(scene: Scene) -> None:
    answers(scene, journal_mode="delete")


def serializable(scene: Scene) -> None:
    connection = connections["default"]
    scene.patch.delitem(connection.settings_dict["OPTIONS"], "isolation_level", raising=False)
    answers(scene, default_transaction_isolation="serializable")


def pooler(scene: Scene) -> None:
    scene.patch.setattr(
        "queuemgr.system_checks.live.database_problems.transaction_pooling",
        lambda: Problem("the database is behind a pooler in transaction mode", ""),
    )


def no_worker(scene: Scene) -> None:
    @queued(name="stated.waiting")
    def waiting() -> None: ...

    waiting.enqueue()


def fast_clock(scene: Scene) -> None:
    now = timezone.now
    scene.patch.setattr("queuemgr.base.database_problems.timezone.now", lambda: now() + timedelta(seconds=60))


def other_broker(scene: Scene) -> None:
    row = scene.fixture("make_worker")()
    Worker.objects.filter(pk=row.pk).update(broker="redis://elsewhere:6379/0")


def async_slots(scene: Scene) -> None:
    scene.fixture("configure")(async_slots=10)
    celery(worker_pool="prefork")(scene)


WRONG: dict[str, Make] = {
    "E001": lambda scene: scene.patch.setattr(settings, "USE_TZ", False),
    "E002": lambda scene: scene.patch.setattr(apps, "is_installed", lambda name: False),
    "W003": lambda scene: scene.patch.setattr(settings, "SLUICE_MAX_WORKER", 3, raising=False),
    "W004": an_app_left_out,
    "E010": lambda scene: scene.fixture("configure")(database="nowhere"),
    "E011": database("django.db.backends.mysql"),
    "E012": database(AUTOCOMMIT=False),
    "E013": database(SQLITE, {"transaction_mode": "DEFERRED"}),
    "E014": database(SQLITE, {"init_command": "PRAGMA journal_mode = DELETE"}),
    "W015": database(SQLITE, {"transaction_mode": "IMMEDIATE", "timeout": 1}),
    "W016": database(SQLITE, {"transaction_mode": "IMMEDIATE"}, NAME=":memory:"),
    "E017": database(POSTGRES, {"options": "-c default_transaction_isolation=serializable"}),
    "E020": lambda scene: scene.patch.setattr(settings, "SLUICE_CELERY_APP", "nowhere.celery"),
    "W021": another_application,
    "W022": celery(broker_url=None),
    "W023": celery(broker_url="memory://"),
    "E024": celery(task_create_missing_queues=False),
    "E025": celery(task_serializer="pickle"),
    "W026": celery(worker_pool="gevent"),
    "W030": async_slots,
    "W027": celery(task_time_limit=300),
    "W028": celery(task_always_eager=True),
    "W029": lambda scene: (celery(broker_url="filesystem://")(scene), database(POSTGRES)(scene)),
    "W040": two_values,
    "W041": unknown_annotation,
    "E042": no_json,
    "W043": late,
    "E044": lambda scene: scene.fixture("configure")(limits='{"host:*": "5/q"}'),
    "E060": pooler,
    "E061": serializable,
    "W062": no_log_file,
    "W063": no_worker,
    "W064": fast_clock,
    "W065": other_broker,
}
"""By the last part of the id."""

ON_POSTGRES = {"E061", "W064"}
EVERY_ENGINE = ("mysql", "oracle", "dummy")
EVERY_SQLITE = (
    ("E013", {"transaction_mode": None}),
    ("E013", {"transaction_mode": "deferred"}),
    ("E013", {"transaction_mode": "DEFERRED"}),
    *(
        (
            "E014",
            {"transaction_mode": "IMMEDIATE", "init_command": f"{before}journal_mode{sign}{mode};{after}"},
        )
        for before in ("PRAGMA ", "PRAGMA foreign_keys=ON; pragma ", "PRAGMA journal_mode=WAL; PRAGMA main.")
        for sign in ("=", " = ", "(")
        for mode in ("delete", "TRUNCATE", "'persist'", '"Memory"', "off")
        for after in ("", " PRAGMA synchronous=OFF")
    ),
)
"""Options of SQLite that cannot work, and the check that says so."""
