"""What the queue needs of a project's settings and apps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

from queuemgr.base.unknown_settings import unknown_settings

NEEDED_APPS = {
    "django.contrib.contenttypes": "permissions of the queue's tables name their content types",
    "django.contrib.auth": "roles and the owners of API tokens are groups and accounts of it",
}


def settings_and_apps(**kwargs: Any) -> list[CheckMessage]:
    return [*_time_zones(), *_apps(), *_names()]


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
