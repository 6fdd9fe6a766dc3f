"""How to make each misconfiguration of docs/doctor.md."""

from __future__ import annotations

import shutil
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from pipeline import queue_search
from pipeline.apps import make_search_indexes
from pipeline.config import pipeline_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import CallbackFailure
from tests.integration.local.misconfiguration import Make, Scene, set_here, variables
from tests.integration.local.misconfigured_brokers import BROKERS
from tests.integration.local.misconfigured_databases import DATABASES
from tests.integration.local.misconfigured_fleets import FLEETS


def not_writable(scene: Scene) -> None:
    scene.patch.setattr("queuemgr.local.checks.installation.os.access", lambda *args: False)


def nearly_full(scene: Scene) -> None:
    usage = namedtuple("usage", "free")
    scene.patch.setattr(shutil, "disk_usage", lambda folder: usage(100 << 20))


def storage_away(scene: Scene) -> None:
    def refuse(name: str, content: object) -> str:
        raise ConnectionRefusedError(111, "Connection refused")

    scene.patch.setattr("pipeline.storage.default_storage.save", refuse)


def not_confined(scene: Scene) -> None:
    scene.patch.setattr(
        "pipeline.sandbox_required._lacking", lambda: ("Landlock (Function not implemented)",)
    )


def not_confined_as_required(scene: Scene) -> None:
    not_confined(scene)
    required = pipeline_settings().model_copy(update={"require_sandbox": True})
    scene.patch.setattr("pipeline.doctor.pipeline_settings", lambda: required)


def no_trigrams(scene: Scene) -> None:
    with connection.cursor() as cursor:
        for index in queue_search.INDEXES:
            cursor.execute(f"DROP INDEX {index.name}")
    scene.undo.append(lambda: make_search_indexes(plan=()))


def callback_failed(scene: Scene) -> None:
    now = database_now()
    CallbackFailure.objects.create(
        flow="press", callback="backfill", problem="raised KeyError: 'host'", since=now, last_at=now
    )


def callback_hung(scene: Scene) -> None:
    now = database_now()
    CallbackFailure.objects.create(
        flow="press", callback="cleanup", problem="still ran after 60 s", since=now, last_at=now, hung_at=now
    )


MISCONFIGURATIONS: dict[str, Make] = {
    "a mistyped setting": set_here(SLUICE_MAX_WORKER="3"),
    "a setting out of its range": variables(SLUICE_MAX_WORKERS="many"),
    "a data directory that cannot be made": variables(SLUICE_DATA_DIR="/proc/nowhere"),
    "a data directory that may not be written": not_writable,
    "a disk that is nearly full": nearly_full,
    "a model's address without its name": variables(SLUICE_LLM_BASE_URL="http://127.0.0.1:1/v1"),
    "a key for OCR without its address": variables(SLUICE_OCR_API_KEY="secret-key"),
    **DATABASES,
    **BROKERS,
    **FLEETS,
    "a file storage that does not answer": storage_away,
    "a kernel that cannot confine it": not_confined,
    "a kernel that cannot confine it, where it must": not_confined_as_required,
    "a user who may not create an extension": no_trigrams,
    "a callback of a flow that fails": callback_failed,
    "a callback of a flow that does not end": callback_hung,
}


@contextmanager
def made(name: str, scene: Scene) -> Iterator[Scene]:
    """The misconfiguration of this name, until the block ends."""
    try:
        MISCONFIGURATIONS[name](scene)
        yield scene
    finally:
        for undo in reversed(scene.undo):
            undo()
