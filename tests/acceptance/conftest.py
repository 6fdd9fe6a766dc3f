"""Fleets for tests: each with a broker and a database of its own, and nothing left of it at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from tests.acceptance.databases import FILE, Database, PostgresDatabase, SqliteFile
from tests.acceptance.fleet import Fleet, environment
from tests.acceptance.processes import Command
from tests.acceptance.up_runs import Home, MakeHome
from tests.acceptance.warm_environment import WarmEnvironment
from tests.fork_server import ForkServer
from tests.installed_wheel import Environment, built_wheel
from tests.private_servers import POSTGRES

HERE = f"{Path(__file__).parent}/"
MakeFleet = Callable[..., Fleet]
MakeEnvironment = Callable[..., Environment]
MakeWarmEnvironment = Callable[..., WarmEnvironment]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker("acceptance")


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory, database: str, fork_server: ForkServer) -> Database:
    """A database migrated once, for fleets to copy; no one works in it."""
    directory = tmp_path_factory.mktemp("migrated")
    made: Database
    made = PostgresDatabase.create(POSTGRES) if database == "postgres" else SqliteFile(directory / FILE)
    migrate = (sys.executable, "manage.py", "migrate", "--skip-checks", "--verbosity", "0")
    Command("migrate", migrate, environment(directory, made), directory, fork_server).end()
    return made


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our wheel, built once for all processes of the tests."""
    base = tmp_path_factory.getbasetemp()
    return built_wheel((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheel")


@pytest.fixture(scope="session")
def make_environment(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> MakeEnvironment:
    """Make an environment with the wheel, these extras and packages, once: `make_environment("web")`."""

    @cache
    def make(*extras: str, also: tuple[str, ...] = ()) -> Environment:
        return Environment(tmp_path_factory.mktemp("environment"), wheel, extras, also)

    return make


@pytest.fixture(scope="session")
def make_warm_environment(
    tmp_path_factory: pytest.TempPathFactory, make_environment: MakeEnvironment
) -> Iterator[MakeWarmEnvironment]:
    """As `make_environment`; each start of its `python` and `celery` is a fork of a warm process."""
    made: list[WarmEnvironment] = []

    @cache
    def make(*extras: str, also: tuple[str, ...] = ()) -> WarmEnvironment:
        environment = make_environment(*extras, also=also).directory
        made.append(WarmEnvironment(environment, tmp_path_factory.mktemp("warm")))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def make_shared_fleet(
    tmp_path_factory: pytest.TempPathFactory, migrated: Database, fork_server: ForkServer
) -> Iterator[MakeFleet]:
    """Make a fleet that lives as long as the module's tests."""
    yield from _maker(tmp_path_factory.mktemp("fleets"), migrated, fork_server)


@pytest.fixture
def make_fleet(tmp_path: Path, migrated: Database, fork_server: ForkServer) -> Iterator[MakeFleet]:
    """Make a fleet with these settings: `make_fleet(max_prep=10)`."""
    yield from _maker(tmp_path, migrated, fork_server)


@pytest.fixture
def fleet(make_fleet: MakeFleet) -> Fleet:
    return make_fleet()


@pytest.fixture(scope="module")
def make_home(tmp_path_factory: pytest.TempPathFactory, migrated: Database) -> Iterator[MakeHome]:
    """Make data directories for runs of `up`, which live as long as the module's tests."""
    made: list[Home] = []
    numbers = count(1)

    def make() -> Home:
        directory = tmp_path_factory.mktemp(f"home-{next(numbers)}")
        made.append(Home(directory, migrated.copy(directory)))
        return made[-1]

    yield make
    for home in made:
        home.close()


def _maker(directory: Path, migrated: Database, fork_server: ForkServer) -> Iterator[MakeFleet]:
    """A function that makes fleets; all are closed at the end, and must have left nothing behind."""
    made: list[Fleet] = []
    numbers = count(1)

    def make(**settings: object) -> Fleet:
        home = directory / f"fleet-{next(numbers)}"
        home.mkdir()
        made.append(Fleet(home, migrated.copy(home), fork_server, **settings))
        return made[-1]

    yield make
    left = [(fleet.close(), fleet.logged_errors()) for fleet in made]
    for processes, errors in left:
        assert not processes, f"left running: {processes}"
        assert not errors, "logged: " + "\n".join(errors)
