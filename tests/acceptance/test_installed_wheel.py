"""The distribution: what is in it, how much it brings, and what it says where an extra is missing."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

from tests.acceptance.conftest import MakeEnvironment
from tests.compose_file import ROOT
from tests.requirements import distribution as required

MOST_PACKAGES, MOST_MEGABYTES = 45, 130

NEEDS = {
    "queuemgr.web": "web",
    "queuemgr.extend.admin": "web",
    "queuemgr.extend.api": "web",
    "queuemgr.local.supervisord": "local",
    "queuemgr.django_tasks": "django-tasks",
    "queuemgr.tasks.django_": "django-tasks",
}
"""The extra that modules of these names need; the others need none."""

IMPORT_EACH = """
import importlib, json, sys
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "queuemgr"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}, SECRET_KEY="-",
)
django.setup()
failed = {}
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except Exception as error:
        failed[name] = str(error)
json.dump(failed, sys.stdout)
"""


def of_the_package() -> set[str]:
    files = (path for path in (ROOT / "queuemgr").rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}


def modules(files: set[str]) -> set[str]:
    names = {name.removesuffix(".py").replace("/", ".") for name in files if name.endswith(".py")}
    return {name.removesuffix(".__init__") for name in names}


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name for name in names if ".dist-info/" not in name} == of_the_package()
    assert "queuemgr/py.typed" in names
    assert any(name.startswith("queuemgr/web/templates/") for name in names)
    assert any(name.startswith("queuemgr/web/static/") for name in names)
    assert "queuemgr/migrations/0001_first_release.py" in names


def test_every_module_is_imported_without_extras_or_names_the_one_it_needs(
    make_environment: MakeEnvironment, tmp_path: Path
) -> None:
    every = modules(of_the_package()) - {"queuemgr.testing.fixtures"}  # who has pytest uses them
    done = subprocess.run(
        [make_environment().python, "-c", IMPORT_EACH],
        input=json.dumps(sorted(every)), capture_output=True, text=True, env={}, cwd=tmp_path, check=True,
    )  # fmt: skip
    failed = json.loads(done.stdout)
    assert failed.keys() == {name for name in every if extra_of(name)}
    for name, error in failed.items():
        assert f"pip install 'sluicegate[{extra_of(name)}]'" in error, name


def extra_of(module: str) -> str:
    """The extra a module needs; empty: none."""
    found = (extra for prefix, extra in NEEDS.items() if module.startswith(prefix))
    return next(found, "")


def test_an_install_without_extras_is_small(wheel: Path) -> None:
    packages = [distribution(name) for name in required()]
    with ZipFile(wheel) as archive:
        own = sum(weight(file.filename, file.file_size) for file in archive.filelist)
    megabytes = (own + sum(map(installed_bytes, packages))) / 1_000_000
    assert len(packages) + 1 <= MOST_PACKAGES
    assert megabytes <= MOST_MEGABYTES


def installed_bytes(package: Distribution) -> int:
    return sum(weight(str(file), file.size or 0) for file in package.files or () if file.suffix != ".pyc")


def weight(name: str, size: int) -> int:
    """The bytes of a file, and of what pip compiles it to, which is about as much again."""
    return 2 * size if name.endswith(".py") else size
