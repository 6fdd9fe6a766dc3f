"""`celery -A queuemgr worker`: the project's Celery application, or our own for a project without one."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import django
from django.apps import apps
from django.conf import ENVIRONMENT_VARIABLE, settings

CANNOT_RUN = 3
"""Exit code of a process whose settings cannot work."""


def __getattr__(name: str) -> Any:
    """The application, found when it is asked for: it needs Django's settings."""
    if name not in ("app", "celery"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not apps.ready:
        _set_up_django()
    if not apps.is_installed("queuemgr"):
        _stop("'queuemgr' is not in INSTALLED_APPS: a worker would serve nothing; add it")
    from queuemgr.worker.celery_app import celery_app

    return celery_app()


def _set_up_django() -> None:
    here = os.getcwd()
    if here not in sys.path:  # as Celery does for projects that make an application of their own
        sys.path.insert(0, here)
    if not settings.configured and not os.environ.get(ENVIRONMENT_VARIABLE):
        _stop(f"{ENVIRONMENT_VARIABLE} is not set: export {ENVIRONMENT_VARIABLE}={_settings_of(Path(here))}")
    module = os.environ.get(ENVIRONMENT_VARIABLE, "")
    try:
        django.setup()
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        where = f"correct it, or start in the directory of manage.py instead of {here}"
        _stop(f"{ENVIRONMENT_VARIABLE}={module} cannot be imported ({error}): {where}")


def _settings_of(directory: Path) -> str:
    """The settings that the `manage.py` there names."""
    with suppress(OSError, UnicodeDecodeError):
        text = (directory / "manage.py").read_text()
        if named := re.search(rf"{ENVIRONMENT_VARIABLE}['\"],\s*['\"]([\w.]+)['\"]", text):
            return named[1]
    return "NAME.settings, as your manage.py has it"


def _stop(problem: str) -> NoReturn:
    sys.stderr.write(f"configuration: {problem}\n")
    raise SystemExit(CANNOT_RUN)
