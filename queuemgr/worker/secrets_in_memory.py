"""A worker runs an application's steps and starts programs for them: none of them finds its secrets in the
environment."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from celery import platforms
from celery.apps import worker as celery_worker

from queuemgr.base import secret_environment
from queuemgr.base.program_secrets import keep_secrets_in_memory


def keep_secrets() -> None:
    """Take all secrets out of the environment; a worker that SIGHUP restarts gets them again."""
    keep_secrets_in_memory()
    celery_worker._reload_current_worker = _start_again  # type: ignore[attr-defined]  # no hook


def _start_again() -> NoReturn:
    """As Celery does it, whose own takes the environment as it is now."""
    streams: Any = [sys.__stdin__, sys.__stdout__, sys.__stderr__]
    platforms.close_open_fds(streams)
    command = [sys.executable, *sys.argv]
    os.execve(sys.executable, command, secret_environment.for_same_program())  # noqa: S606 - the same program
