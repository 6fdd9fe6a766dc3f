"""The Celery application of the project; for a project without one, an application of our own.

Ours takes the project's settings that begin with `CELERY_`. Without `CELERY_BROKER_URL` it keeps its messages
in files of `SLUICE_DATA_DIR`, which is enough for one machine: a message is only a hint, and the work is in
the database.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from celery import Celery, _state
from celery.app.utils import find_app
from django.conf import settings
from kombu.transport import TRANSPORT_ALIASES

from queuemgr.base.data_directory import make_data_directory
from queuemgr.base.private_files import tighten
from queuemgr.flows.flow import HOUSEKEEPING

POLLING_SECONDS = 0.1
"""How often a worker looks for files with messages."""


def project_app() -> Celery | None:
    """The application the project has: the one it made already, else that of the module named in
    `SLUICE_CELERY_APP`, else of `celery` or `celery_app` beside its settings."""
    made: list[Celery] = [app for app in active_apps() if app.main != "default"]
    if made:
        return made[0]
    return next(filter(None, map(application_in, _modules())), None)


def application_in(name: str) -> Celery | None:
    """The application that `celery -A` finds by this name, if there is one."""
    try:
        found = find_app(name)
    except AttributeError:
        return None
    except ModuleNotFoundError as error:  # its own, or one that it imports
        if not f"{name}.".startswith(f"{error.name}."):
            raise
        return None
    return found if isinstance(found, Celery) else None


def active_apps() -> list[Any]:
    """The applications of this process, as `celery.shared_task` finds them."""
    return list(getattr(_state, "_get_active_apps")())  # noqa: B009  # its stubs do not have it


def stated_module() -> str:
    """What `SLUICE_CELERY_APP` says."""
    return str(getattr(settings, "SLUICE_CELERY_APP", ""))


def _modules() -> list[str]:
    stated = stated_module()
    root = str(settings.SETTINGS_MODULE).partition(".")[0] if settings.SETTINGS_MODULE else ""
    return [stated] if stated else [f"{root}.celery", f"{root}.celery_app"] if root else []


def own_app() -> Celery:
    """An application of our own."""
    app = Celery("queuemgr")
    app.config_from_object("django.conf:settings", namespace="CELERY")
    app.conf.setdefault("task_default_queue", HOUSEKEEPING)
    if not (app.conf.broker_url or os.environ.get("CELERY_BROKER_URL")):
        _use_files(app, make_data_directory() / "messages")
    app.autodiscover_tasks()
    return app


def _use_files(app: Celery, folder: Path) -> None:
    """Send messages through files."""
    TRANSPORT_ALIASES["filesystem"] = "queuemgr.worker.file_transport:Transport"
    for name in ("queues", "control", "processed"):
        (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
    tighten([folder, *folder.iterdir()])
    app.conf["broker_url"] = "filesystem://localhost//"  # kombu warns of an address without a host
    app.conf["broker_transport_options"] = {
        "data_folder_in": str(folder / "queues"), "data_folder_out": str(folder / "queues"),
        "control_folder": str(folder / "control"), "polling_interval": POLLING_SECONDS,
    }  # fmt: skip


@cache
def celery_app() -> Celery:
    """The application of this process."""
    return project_app() or own_app()
