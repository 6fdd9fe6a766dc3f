"""The project of the quick start, and pages of the documentation that continue it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.conftest import MakeEnvironment, MakeWarmEnvironment
from tests.acceptance.documented_page import Page
from tests.acceptance.documented_reader import Reader
from tests.acceptance.warm_environment import environment_of
from tests.compose_file import ROOT
from tests.private_servers import POSTGRES, REDIS

DOCS = ROOT / "docs"
BROKER = f"{REDIS.url.rpartition('/')[0]}/7"
"""A database of the broker that no other test uses."""

Follow = Callable[..., None]


@pytest.fixture(scope="module")
def read_project(tmp_path_factory: pytest.TempPathFactory, make_environment: MakeEnvironment) -> Path:
    """The project of the quick start, after that was followed."""
    directory = tmp_path_factory.mktemp("quick_start") / "shop"
    directory.mkdir()
    with closing(Reader(directory, environment_of(make_environment().directory))) as reader:
        reader.follow(Page(DOCS / "quick_start.md"))
    return directory


@pytest.fixture
def follow(
    read_project: Path,
    tmp_path: Path,
    make_environment: MakeEnvironment,
    make_warm_environment: MakeWarmEnvironment,
) -> Follow:
    """Follow a page that continues the quick start, in an environment with these extras, and these packages
    and variables."""

    def follow_page(name: str, *extras: str, packages: tuple[str, ...] = (), **variables: str) -> None:
        path = next(path for path in (DOCS / "tutorials" / name, DOCS / name) if path.exists())
        page = Page(path)
        assert (path.parent / page.continues).resolve() == DOCS / "quick_start.md"
        directory = tmp_path / "shop"
        shutil.copytree(read_project, directory)
        environment = environment_of(make_environment(*extras, also=packages).directory)
        warm = make_warm_environment(*extras, also=packages)
        environment["PATH"] = f"{warm.directory / 'bin'}:{environment['PATH']}"
        with closing(Reader(directory, {**environment, **variables})) as reader:
            reader.follow(page)

    return follow_page


@contextmanager
def database_of_shop() -> Iterator[dict[str, str]]:
    """The database `shop` on the tests' PostgreSQL; the variables of PostgreSQL's tools that lead to it."""
    with psycopg.connect(POSTGRES.url, autocommit=True) as link:
        link.execute("CREATE DATABASE shop")
        try:
            yield {
                "PGHOST": "127.0.0.1", "PGPORT": str(POSTGRES.port), "PGUSER": "sluice",
                "PGPASSWORD": POSTGRES.password,
            }  # fmt: skip
        finally:
            link.execute("DROP DATABASE shop WITH (FORCE)")
