"""Tests with servers of the system; they skip what is missing.

`make test` runs those that follow the documentation, `make test-services` all.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.acceptance.conftest import make_fleet, migrated

__all__ = ("make_fleet", "migrated")

HERE = f"{Path(__file__).parent}/"
FOLLOWS_DOCUMENTATION = "test_documented_services.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(HERE) and item.path.name != FOLLOWS_DOCUMENTATION:
            item.add_marker("services")


def need(program: str, package: str) -> str:
    """The path of a program of the system; skips the test, naming its package, where there is none."""
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/lib/postgresql/15/bin")
    if path is None:
        pytest.skip(f"{program} is not installed: apt install {package}")
    return path
