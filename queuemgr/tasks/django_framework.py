"""Django's Tasks framework: Django's own from version 6.0, and its backport `django-tasks` before."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import django
from django.core.exceptions import ImproperlyConfigured

FRAMEWORK = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"


def _of(module: str, name: str) -> Any:
    try:
        return getattr(import_module(f"{FRAMEWORK}{module}"), name)
    except ModuleNotFoundError as error:
        raise ImproperlyConfigured(
            f"Django {django.get_version()} has no Tasks framework, and its backport is missing ({error}): "
            "pip install 'sluicegate[django-tasks]', and add 'django_tasks' to INSTALLED_APPS"
        ) from None


TaskContext = _of("", "TaskContext")
TaskResult = _of("", "TaskResult")
TaskResultStatus = _of("", "TaskResultStatus")
BaseTaskBackend = _of(".backends.base", "BaseTaskBackend")
Task = _of(".base", "Task")
TaskError = _of(".base", "TaskError")
TaskResultDoesNotExist = _of(".exceptions", "TaskResultDoesNotExist")
InvalidTask = _of(".exceptions", "InvalidTask" if FRAMEWORK == "django.tasks" else "InvalidTaskError")
task_enqueued = _of(".signals", "task_enqueued")
task_finished = _of(".signals", "task_finished")
task_started = _of(".signals", "task_started")
