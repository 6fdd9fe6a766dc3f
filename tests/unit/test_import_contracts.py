"""The contracts of imports name every package there is, so that a new one is not overlooked."""

from __future__ import annotations

import ast
import pkgutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import queuemgr

PUBLIC = {"django_tasks", "extend", "schedules", "steptools", "testing", "signals"}
ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def test_pipeline_may_import_no_package_of_queuemgr_but_the_public_ones() -> None:
    (contract,) = (c for c in CONTRACTS if c.get("source_modules") == ["pipeline"])
    there = {module.name for module in pkgutil.iter_modules(queuemgr.__path__)}
    assert set(contract["forbidden_modules"]) == {f"queuemgr.{name}" for name in there - PUBLIC}


def test_every_extension_module_is_small() -> None:
    folder = Path(queuemgr.__file__).parent / "extend"
    long = {path.name for path in folder.glob("*.py") if len(path.read_text().splitlines()) > 60}
    assert not long


DEFAULTS = {"connection", "transaction", "DEFAULT_DB_ALIAS"}
"""What of `django.db` is about the alias `default`."""

ALL = {"connections", "router"}
"""What is about every alias, for those who close connections or look at the settings of each."""

MAY_IMPORT = {
    "base/queue_database.py": ALL,
    "base/transaction.py": {"transaction"},
    "base/online_ddl.py": ALL | {"transaction"},  # in and after migrations, of the project's tables too
    "base/db_connection.py": ALL,
    "base/fork_gate.py": ALL,
    "base/migrating.py": {"connections", "DEFAULT_DB_ALIAS"},  # the project's tables are migrated, too
    "base/own_connection.py": ALL,
    "lifecycle/callback_failures.py": ALL,
    "system_checks/database_settings.py": ALL,
    "web/shared_check.py": ALL,
    "apps.py": ALL,
}


def taken_from_django(source: str) -> Iterator[str]:
    """What a module takes from `django.db` of connections and transactions, however it does so."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module in (
            "django",
            "django.db",
            "django.db.transaction",
        ):
            named = {alias.name for alias in node.names}
            yield from (
                named if node.module == "django.db.transaction" else named & (DEFAULTS | ALL | {"db"})
            )
        elif isinstance(node, ast.Import):
            yield from (
                each.name for each in node.names if each.name in ("django.db", "django.db.transaction")
            )


def test_no_module_takes_a_connection_or_a_transaction_of_another_database() -> None:
    strangers = {}
    for path in sorted((ROOT / "queuemgr").rglob("*.py")):
        name = str(path.relative_to(ROOT / "queuemgr"))
        if "migrations" not in path.parts:
            taken = set(taken_from_django(path.read_text())) - MAY_IMPORT.get(name, set())
            strangers |= {name: taken} if taken else {}
    assert strangers == {}, "import connection from base.queue_database, transaction from base"


@pytest.mark.parametrize(
    ("source", "taken"),
    [
        ("from django.db import transaction, models", {"transaction"}),
        ("def f():\n    from django.db import connection as c", {"connection"}),
        ("from django.db.transaction import atomic", {"atomic"}),
        ("import django.db", {"django.db"}),
        ("from django import db", {"db"}),
        ("from django.db import DatabaseError, models", set()),
        ("from queuemgr.base import transaction", set()),
    ],
)
def test_an_import_of_another_database_is_found(source: str, taken: set[str]) -> None:
    assert set(taken_from_django(source)) == taken
