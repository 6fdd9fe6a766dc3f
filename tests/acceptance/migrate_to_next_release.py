"""Run `manage.py migrate` with the migrations of the next release; with a number, the operating system
ends it at that operation."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

from django.conf import settings
from django.core.management import execute_from_command_line

from queuemgr.base.online_ddl import AddConstraintNotValid, AddIndexConcurrently

numbers = count(1)


def killed_at(number: int, forwards: Callable[..., None]) -> Callable[..., None]:
    def run(*given: Any) -> None:
        if next(numbers) == number:
            os.write(2, b"killed half-way")
            os._exit(9)
        forwards(*given)

    return run


if sys.argv[1:]:
    for operation in (AddIndexConcurrently, AddConstraintNotValid):
        forwards = killed_at(int(sys.argv[1]), operation.database_forwards)
        operation.database_forwards = forwards  # type: ignore[method-assign]  # replaced on purpose
settings.MIGRATION_MODULES = {"queuemgr": "tests.acceptance.next_release"}
execute_from_command_line(["manage.py", "migrate", "-v", "0"])
