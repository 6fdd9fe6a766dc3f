"""Our pages in a project of somebody else's: any user model, Django's admin or the theme, on a site of ours
and on the project's. Each combination is a process of its own: `tests/any_project`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from tests.any_project.look_around import NAME
from tests.compose_file import ROOT
from tests.private_servers import POSTGRES

KINDS = ("stock", "email", "documented", "bare", "uuid")
"""Django's own accounts, some without user names, as in its documentation without its permissions, without
anything, and with UUIDs for keys."""

LOOKS = {"plain": "web", "theme": "web,unfold"}
USUAL = {("email", "theme"), ("bare", "plain")}
"""What is looked at in every run; the others are left to the proof."""

ON = {("email", "theme"): "server", ("bare", "plain"): "both", ("stock", "plain"): "both"}
"""Where the accounts and the queue are: in one file (if not stated here), on the server, or the accounts in a
file and the queue on the server."""

EVERY = [
    pytest.param(
        kind, look, marks=() if (kind, look) in USUAL else pytest.mark.slow_proof, id=f"{kind}-{look}"
    )
    for kind in KINDS
    for look in LOOKS
]
OF_SITE = ("index", "password_change", "password_change_done", "jsi18n", "search")
OURS = (
    "step_times", "bulk_new", "bulk_progress", "failures", "dashboard_page", "dashboard_fragment", "alerts",
    "alert_silence",
)  # fmt: skip
MORE = (
    "execution_enqueue", "auditentry_export", "limit_add", "retrypolicy_add", "retrypolicy_delete",
    "apitoken_add",
)  # fmt: skip
OPENED = {*OF_SITE, *OURS, *(f"queuemgr_{name}" for name in MORE)}
"""The pages that a person with every permission opens, beside all lists and the pages of all rows."""

RECORDED = [
    "pause", "resume", "pause", "edit limit", "set priority", "start bulk action", "bulk skip",
    "end bulk action", "make token",
]  # fmt: skip

Look = Callable[[str, str], dict[str, Any]]


@contextmanager
def database_of_the_server() -> Iterator[dict[str, Any]]:
    name, url = f"any_{uuid4().hex[:8]}", urlsplit(POSTGRES.url)
    with psycopg.connect(POSTGRES.url, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}")
        yield {
            "ENGINE": "django.db.backends.postgresql", "NAME": name, "HOST": url.hostname, "PORT": url.port,
            "USER": url.username, "PASSWORD": POSTGRES.password,
        }  # fmt: skip
        session.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def databases(where: str, directory: Path) -> Iterator[dict[str, Any]]:
    file = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(directory / "project.sqlite3")}
    if where == "file":
        yield {"default": file}
        return
    with database_of_the_server() as server:
        yield {"default": server} if where == "server" else {"default": file, "queue": server}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Look:
    """What is seen in the project with these accounts and these apps: looked at once."""

    @cache
    def look(kind: str, apps: str, where: str = "file") -> dict[str, Any]:
        directory = tmp_path_factory.mktemp("project")
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        with databases(where, directory) as stated:
            done = subprocess.run(
                [sys.executable, "-m", "tests.any_project.look_around"], cwd=ROOT, capture_output=True,
                text=True, timeout=120,
                env={
                    **kept, "PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "tests.any_project.settings",
                    "PEOPLE": kind, "WITH": apps, "DATABASES": json.dumps(stated),
                    "DIRECTORY": str(directory), "PYTHONHASHSEED": "0",  # the theme prints sets of classes
                },
            )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return look


@pytest.fixture
def seen(project: Any, kind: str, look: str) -> dict[str, Any]:
    found: dict[str, Any] = project(kind, LOOKS[look], ON.get((kind, look), "file"))
    return found


def sites(seen: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in ("own", "joined"):
        if name in seen:
            yield name, seen[name], seen[f"{name} acts"]


@pytest.mark.parametrize(("kind", "look"), EVERY)
def test_every_page_of_ours_opens_with_any_accounts_on_either_site(seen: dict[str, Any], kind: str) -> None:
    assert ("joined" in seen) == (kind != "bare"), "Django's own admin needs accounts that have permissions"
    for name, pages, _ in sites(seen):
        statuses = pages["statuses"]
        opens = {n for n in statuses if n in OPENED or n.endswith(("_changelist", "queuemgr", "_change"))}
        assert {n: statuses[n] for n in opens} == dict.fromkeys(opens, 200), name
        assert {*statuses.values()} <= {200, 302, 403, 404, 405}
        assert {n for n, status in statuses.items() if status == 404} <= {"view_on_site"}
        assert {"dashboard_page", "bulk_new", "queuemgr_execution_changelist"} <= opens
        assert len(opens) >= 30
        assert pages["unstyled"] == [], name
        assert pages["astray"] == [], "no link leads from one site to the other"
    assert seen["checks"] == []


@pytest.mark.parametrize(("kind", "look"), EVERY)
def test_what_is_changed_on_any_page_is_in_the_audit_log_by_the_name_one_logs_in_with(
    seen: dict[str, Any],
) -> None:
    for name, _, acts in sites(seen):
        said = dict(acts["said"])
        bulk = said.pop("bulk")
        assert {what: each["status"] for what, each in said.items()} == dict.fromkeys(said, 200), name
        assert {actor for actor, _, _ in acts["log"]} == {NAME}
        actions = [action for _, _, action in acts["log"]]
        assert actions == [one for one in RECORDED if name == "own" or one != "set priority"]
        assert bulk["account"] == bulk["key"], "whatever the type of its key"
        assert (bulk["state"], bulk["problem"]) == ("done", ""), "who started it still may"


@pytest.mark.parametrize(("kind", "look"), EVERY)
def test_a_site_of_ours_lets_in_who_has_permissions_and_nobody_else(seen: dict[str, Any]) -> None:
    login = seen["login"]
    assert (login["wrong"], login["right"], login["leads"]) == (200, 302, "/queue/")
    assert login["log"] == ["failed login", f"user {NAME}"]
    assert {tuple(answer) for answer in seen["stranger"]} == {(302, "/queue/login/")}


@pytest.mark.parametrize(("kind", "look"), [each for each in EVERY if each.values[0] != "bare"])
def test_our_lists_are_guarded_on_the_project_s_site_and_its_own_are_not(seen: dict[str, Any]) -> None:
    assert seen["guarded"] == {
        "a look-up that our list does not offer": 400, "a filter of our list": 200,
        "any look-up of the project's list": 200, "completing our rows": 403,
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "look"), EVERY)
def test_api_health_and_metrics_answer_wherever_they_are_included(seen: dict[str, Any]) -> None:
    assert seen["api"] == {
        "api/v1/executions": 200, "api/v1/docs": 404, "health/live": 200, "healthz": 200, "metrics": 200,
        "api/v1/nothing": 404,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "look"),
    [
        ("email", "theme"),
        *(
            pytest.param(kind, look, marks=pytest.mark.slow_proof)
            for kind, look in (("stock", "plain"), ("stock", "theme"), ("uuid", "plain"))
        ),
    ],
)
def test_the_pages_and_commands_of_the_project_are_as_they_would_be_without_ours(
    project: Any, seen: dict[str, Any], kind: str, look: str
) -> None:
    """Its login, its lists with any look-up, its forms and its user admin, to the byte; and its commands."""
    without = project(kind, LOOKS[look].replace("web", "none"))
    assert len(without["project"]) >= 15
    assert without["project"].keys() == seen["project"].keys()
    assert {page for page in without["project"] if without["project"][page] != seen["project"][page]} == set()
    assert all(text.startswith("200") for text in without["project"].values())
    assert without["help"] == seen["help"]
