"""Pages of the documentation, followed to the letter in a new project with our wheel."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeWarmEnvironment
from tests.acceptance.documented_blocks import TOGETHER
from tests.acceptance.documented_page import Page
from tests.acceptance.documented_project import BROKER, DOCS, Follow, database_of_shop, follow, read_project
from tests.acceptance.documented_reader import Reader
from tests.acceptance.documented_together import run_together
from tests.compose_file import ROOT
from tests.installed_wheel import SOURCES

ALL_EXTRAS = ("django-tasks", "postgres", "web")
"""Those that pages ask for, in one environment; the other pages have an environment without any."""

__all__ = ("follow", "read_project")


def test_the_quick_start_leads_to_the_first_limited_task(read_project: Path) -> None:
    assert (read_project / "db.sqlite3").exists()


@pytest.mark.parametrize("page", ["limit_an_api.md", "testing.md"])
def test_a_tutorial_does_what_it_says(page: str, follow: Follow) -> None:
    follow(page)


def test_tasks_of_celery_move_by_a_line(follow: Follow) -> None:
    follow("from_celery.md", BROKER_URL=BROKER)


@pytest.mark.parametrize("page", ["nightly_import.md", "debounce.md", "map_reduce.md"])
def test_a_tutorial_of_periodic_unique_or_many_calls_does_what_it_says(page: str, follow: Follow) -> None:
    follow(page)


@pytest.mark.parametrize(
    "page",
    [
        "daily_budget.md",
        "spend_dollars.md",
        "several_steps.md",
        "rolling_deploys.md",
        "backup_and_restore.md",
    ],
)
def test_a_tutorial_of_operation_does_what_it_says(page: str, follow: Follow) -> None:
    follow(page)


def test_pages_do_what_they_say_in_one_project(
    read_project: Path, tmp_path: Path, make_warm_environment: MakeWarmEnvironment
) -> None:
    directory = tmp_path / "shop"
    shutil.copytree(read_project, directory)
    wrong = run_together([ROOT / name for name in TOGETHER], directory, make_warm_environment().directory)
    assert not wrong, "\n\n".join(wrong)


def test_the_pages_join_a_project_by_a_line(follow: Follow) -> None:
    follow("web_pages.md", *ALL_EXTRAS)


def test_tasks_of_django_move_by_a_setting(follow: Follow) -> None:
    follow("from_django_tasks.md", *ALL_EXTRAS)


@pytest.mark.only_on("postgres", why="it is on PostgreSQL")
def test_the_tutorial_for_several_machines_does_what_it_says(follow: Follow) -> None:
    with database_of_shop() as variables:
        follow("several_machines.md", *ALL_EXTRAS, BROKER_URL=BROKER, **variables)


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
