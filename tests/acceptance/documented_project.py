"""The project of the quick start, and pages of the documentation that continue it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import psycopg
import pytest

from tests.acceptance import warm_python
from tests.acceptance.adopter_project import wait_until
from tests.acceptance.conftest import MakeEnvironment
from tests.acceptance.documented_page import Page
from tests.acceptance.documented_reader import Reader
from tests.compose_file import ROOT
from tests.private_servers import POSTGRES, REDIS

DOCS = ROOT / "docs"
BROKER = f"{REDIS.url.rpartition('/')[0]}/7"
"""A database of the broker that no other test uses."""

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


class WarmPython:
    """The programs `python` and `celery` of a virtual environment, each start a fork (warm_python.py)."""

    def __init__(self, environment: Path, directory: Path) -> None:
        self.directory, self._log = directory, directory / "log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [environment / "bin" / "python", warm_python.__file__, directory], cwd=directory,
                env=environment_of(environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        wait_until("Python is warm", self._is_ready)

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        return all((self.directory / name).exists() for name in warm_python.PROGRAMS)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


MakeWarmPython = Callable[..., WarmPython]


@pytest.fixture(scope="module")
def make_warm_python(
    tmp_path_factory: pytest.TempPathFactory, make_environment: MakeEnvironment
) -> Iterator[MakeWarmPython]:
    """The warm Python of an environment with these extras and packages, one for all pages."""
    made: list[WarmPython] = []

    @cache
    def make(*extras: str, also: tuple[str, ...] = ()) -> WarmPython:
        environment = make_environment(*extras, also=also).directory
        made.append(WarmPython(environment, tmp_path_factory.mktemp("warm")))
        return made[-1]

    yield make
    for python in made:
        python.close()


@pytest.fixture
def follow(
    read_project: Path, tmp_path: Path, make_environment: MakeEnvironment, make_warm_python: MakeWarmPython
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
        warm = make_warm_python(*extras, also=packages)
        environment["PATH"] = f"{warm.directory}:{environment['PATH']}"
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
