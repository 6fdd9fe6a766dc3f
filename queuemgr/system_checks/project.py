"""What the queue needs of a project's settings and apps."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

from queuemgr.base.unknown_settings import unknown_settings
from queuemgr.worker.flow_modules import MODULES

USES_THE_QUEUE = re.compile(r"^\s*(?:from|import) queuemgr\b", re.MULTILINE)
QUEUE = "queuemgr"
"""Our own app, beside which is nothing of the project."""

INSTALLED = {"site-packages", "dist-packages"}
"""Directories of packages that are not the project's own."""

NEEDED_APPS = {
    "django.contrib.contenttypes": "permissions of the queue's tables name their content types",
    "django.contrib.auth": "roles and the owners of API tokens are groups and accounts of it",
}


def settings_and_apps(**kwargs: Any) -> list[CheckMessage]:
    return [*_time_zones(), *_apps(), *_names(), *_apps_left_out()]


def _time_zones() -> Iterator[CheckMessage]:
    if not settings.USE_TZ:
        yield Error(
            "USE_TZ is False: the queue compares times with those of the database, which have a time zone.",
            hint="Set USE_TZ = True. Django's templates and forms still show local time.",
            id="queuemgr.E001",
        )


def _names() -> Iterator[CheckMessage]:
    for name, remedy in unknown_settings(dir(settings)):
        yield Warning(f"{name} is set, but there is no such setting.", hint=remedy, id="queuemgr.W003")


def _apps() -> Iterator[CheckMessage]:
    for name, why in missing(NEEDED_APPS):
        yield Error(
            f"{name} is not installed: {why}.",
            hint=f"Add {name!r} to INSTALLED_APPS; it needs no URLs and no middleware.",
            id="queuemgr.E002",
        )


def missing(needed: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Those of these apps that are not installed, each with what it is needed for."""
    return ((name, why) for name, why in needed.items() if not apps.is_installed(name))


def _apps_left_out() -> Iterator[CheckMessage]:
    """Packages beside the project's apps that have tasks of the queue, and that no app has imported."""
    apps_of = {Path(config.path): config.name for config in apps.get_app_configs()}
    own = {
        path: name
        for path, name in apps_of.items()
        if not INSTALLED & {*path.parts} and name.partition(".")[0] != QUEUE
    }
    beside = {path.parent: name.rpartition(".")[0] for path, name in own.items()}
    files = ((package, file) for place, package in beside.items() for file in _modules_below(place))
    for package, file in sorted(files):
        name = ".".join(filter(None, (package, file.parent.name)))
        if file.parent not in apps_of and f"{name}.{file.stem}" not in sys.modules and _uses_the_queue(file):
            yield Warning(
                f"{name}.{file.stem} has tasks or flows of the queue, and {name} is not installed: no worker "
                "knows them, and what is enqueued to them waits.",
                hint=f"Add {name!r} to INSTALLED_APPS, before 'queuemgr'.",
                id="queuemgr.W004",
            )


def _modules_below(place: Path) -> Iterator[Path]:
    """Where tasks and flows of the packages in a directory would be."""
    for name in MODULES:
        yield from place.glob(f"*/{name}.py")


def _uses_the_queue(file: Path) -> bool:
    return bool(USES_THE_QUEUE.search(file.read_text(errors="replace")))
