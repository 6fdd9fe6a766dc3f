"""Pages of the documentation, followed to the letter in a new project with our wheel."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeEnvironment
from tests.acceptance.documented_page import Page
from tests.acceptance.documented_reader import Reader
from tests.compose_file import ROOT
from tests.installed_wheel import SOURCES
from tests.private_servers import REDIS

DOCS = ROOT / "docs"
Follow = Callable[..., None]


def environment_of(directory: Path) -> dict[str, str]:
    """The environment of a terminal in which the virtual environment of this directory is active."""
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    return {**kept, "PATH": f"{directory / 'bin'}:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="module")
def read_project(tmp_path_factory: pytest.TempPathFactory, make_environment: MakeEnvironment) -> Path:
    """The project of the quick start, after that was followed."""
    directory = tmp_path_factory.mktemp("quick_start") / "shop"
    directory.mkdir()
    with closing(Reader(directory, environment_of(make_environment().directory))) as reader:
        reader.follow(Page(DOCS / "quick_start.md"))
    return directory


@pytest.fixture
def follow(read_project: Path, tmp_path: Path, make_environment: MakeEnvironment) -> Follow:
    """Follow a page that continues the quick start, in an environment with these extras."""

    def follow_page(name: str, *extras: str, **also: str) -> None:
        page = Page(DOCS / "tutorials" / name)
        assert page.continues == "../quick_start.md"
        directory = tmp_path / "shop"
        shutil.copytree(read_project, directory)
        environment = environment_of(make_environment(*extras).directory) | also
        with closing(Reader(directory, environment)) as reader:
            reader.follow(page)

    return follow_page


def test_the_quick_start_leads_to_the_first_limited_task(read_project: Path) -> None:
    assert (read_project / "db.sqlite3").exists()


@pytest.mark.parametrize("page", ["limit_an_api.md", "from_celery.md", "testing.md"])
def test_a_tutorial_does_what_it_says(page: str, follow: Follow) -> None:
    follow(page, BROKER_URL=f"{REDIS.url.rpartition('/')[0]}/7")


@pytest.mark.slow_proof
def test_the_quick_start_installs_what_it_needs(tmp_path: Path) -> None:
    """With a real environment, made and filled as the page says."""
    for name in SOURCES:
        place = tmp_path / "sluicegate" / name
        place.parent.mkdir(exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, place)
    directory = tmp_path / "shop"
    directory.mkdir()
    python = tmp_path / "python"
    python.mkdir()
    (python / "python").symlink_to(sys.executable)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLUICE_", "DJANGO_", "PYTHON"))}
    for name in ("BROKER_URL", "DATABASE_URL", "VIRTUAL_ENV"):
        environment.pop(name, None)
    environment["PATH"] = f"{python}:{environment['PATH']}"
    with closing(Reader(directory, environment, installs=True)) as reader:
        reader.follow(Page(DOCS / "quick_start.md"))
    assert list(directory.glob(".venv/lib/*/site-packages/sluicegate-*"))
