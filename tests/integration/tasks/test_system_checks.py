"""Each id of docs/checks.md: what it is about is made, and `check` sees it; who is right hears nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core import checks
from django.core.checks import CheckMessage
from django.db import connections

from queuemgr.base import sqlite_options
from queuemgr.system_checks import TAG
from tests.compose_file import ROOT
from tests.integration.tasks.wrong_settings import (
    EVERY_ENGINE,
    EVERY_SQLITE,
    ON_POSTGRES,
    SQLITE,
    WRONG,
    Scene,
    database,
)
from tests.integration.web.test_page_checks import WRONG as WRONG_PAGES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("declaring", "sent")]
PAGE = (ROOT / "docs" / "checks.md").read_text()
ID = re.compile(r"queuemgr\.([EWI]\d{3})")


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Scene]:
    scene = Scene(monkeypatch, request.getfixturevalue)
    with scene.made:
        yield scene


def found(*, with_database: bool = True) -> dict[str, CheckMessage]:
    """What the checks of the queue say, by the last part of their ids."""
    messages = checks.run_checks(
        tags=[TAG], include_deployment_checks=True, databases=["default"] if with_database else None
    )
    return {message.id.rpartition(".")[2]: message for message in messages}


def test_every_id_is_documented_and_every_documented_id_exists() -> None:
    sources = [path.read_text() for path in (ROOT / "queuemgr").rglob("*.py")]
    ids = {name for source in sources for name in re.findall(r'id="queuemgr\.([EWI]\d{3})"', source)}
    assert {row for line in PAGE.splitlines() if line[:2] == "| " for row in ID.findall(line[:20])} == ids
    assert {name for name in ids if int(name[1:]) < 100} == set(WRONG)


def test_every_id_of_a_check_is_made_by_a_test() -> None:
    assert set(WRONG) | set(WRONG_PAGES) == set(ID.findall(PAGE))


def test_a_project_that_is_right_has_no_message() -> None:
    assert found() == {}


def made(name: str, scene: Scene) -> None:
    WRONG[name](scene)
    messages = found()
    assert name in messages, messages
    assert messages[name].hint and messages[name].msg
    assert messages[name].level == (checks.ERROR if name[0] == "E" else checks.WARNING)
    if int(name[1:]) >= 60:
        assert name not in found(with_database=False), "a plain check asks no database"


@pytest.mark.parametrize("name", sorted(set(WRONG) - ON_POSTGRES))
def test_what_a_check_is_about_is_found_when_it_is_made(scene: Scene, name: str) -> None:
    made(name, scene)


@pytest.mark.only_on("postgres", why="it has isolation levels")
@pytest.mark.parametrize("name", sorted(ON_POSTGRES))
def test_what_only_a_server_can_have_is_found(scene: Scene, name: str) -> None:
    made(name, scene)


@pytest.mark.parametrize("engine", EVERY_ENGINE)
def test_a_database_of_any_other_kind_is_refused_without_its_driver(scene: Scene, engine: str) -> None:
    database(f"django.db.backends.{engine}")(scene)
    assert found()["E011"].level == checks.ERROR


def test_options_of_sqlite_that_cannot_work_are_refused_however_they_are_written(scene: Scene) -> None:
    for name, options in EVERY_SQLITE:
        database(SQLITE, dict(options))(scene)
        assert name in found(with_database=False), options


@pytest.mark.parametrize(
    "stated",
    [
        {}, {"timeout": 20}, {"init_command": "PRAGMA foreign_keys=ON"}, {"init_command": ""},
        {"init_command": None}, {"transaction_mode": "EXCLUSIVE"},
        {"init_command": "PRAGMA journal_mode=wal; PRAGMA cache_size=1"},
    ],
)  # fmt: skip
def test_options_of_sqlite_that_are_left_out_are_completed(scene: Scene, stated: dict[str, Any]) -> None:
    database(SQLITE, dict(stated))(scene)
    options = connections.settings["default"]["OPTIONS"]
    sqlite_options.complete(options)
    assert sqlite_options.journal_mode(options) == "wal"
    assert str(stated.get("init_command") or "") in options["init_command"]
    assert {
        name: value for name, value in stated.items() if name != "init_command"
    }.items() <= options.items()
    assert not {"E013", "E014", "W015"} & set(found(with_database=False))
