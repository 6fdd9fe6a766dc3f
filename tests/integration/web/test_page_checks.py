"""Each id of docs/checks.md about the pages: what it is about is made, and `check` sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.base_user import AbstractBaseUser
from django.core import checks
from django.core.checks import CheckMessage

from queuemgr.operations import user_model
from queuemgr.system_checks import TAG
from queuemgr.system_checks.web_pages import API_MIDDLEWARE, NEEDED_APPS
from tests.compose_file import ROOT

pytestmark = pytest.mark.django_db


def found() -> dict[str, CheckMessage]:
    messages = checks.run_checks(tags=[TAG])
    return {message.id.rpartition(".")[2]: message for message in messages if message.id}


def without_app(patch: pytest.MonkeyPatch, settings: Any) -> None:
    is_installed = apps.is_installed
    patch.setattr(apps, "is_installed", lambda name: name != "django.contrib.messages" and is_installed(name))


def without_addresses(patch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.integration.web.no_addresses"


def theme_after_the_admin(patch: pytest.MonkeyPatch, settings: Any) -> None:
    backwards = [*apps.get_app_configs()][::-1]
    patch.setattr(apps, "get_app_configs", lambda: backwards)


def without_middleware(patch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if name != API_MIDDLEWARE]


def accounts_that_nobody_answers_for(patch: pytest.MonkeyPatch, settings: Any) -> None:
    patch.setattr(user_model, "model", lambda: Bare)
    settings.AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.BaseBackend"]


class Bare(AbstractBaseUser):
    class Meta:
        abstract = True


WRONG: dict[str, Callable[[pytest.MonkeyPatch, Any], None]] = {
    "E101": without_app,
    "W102": without_addresses,
    "W103": theme_after_the_admin,
    "W104": without_middleware,
    "W105": accounts_that_nobody_answers_for,
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_what_a_check_of_the_pages_is_about_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    assert found() == {}
    WRONG[name](monkeypatch, settings)
    messages = found()
    assert messages.keys() == {name}
    assert messages[name].hint and messages[name].msg
    assert messages[name].level == (checks.ERROR if name[0] == "E" else checks.WARNING)


@pytest.mark.parametrize("pages", ["own_site_alone", "api_alone"])
def test_one_of_the_three_lines_is_enough(pages: str, settings: Any) -> None:
    settings.ROOT_URLCONF = f"tests.integration.web.{pages}"
    assert found() == {}


def test_every_check_of_the_pages_is_made_here() -> None:
    source = (ROOT / "queuemgr" / "system_checks" / "web_pages.py").read_text()
    assert {name for name in WRONG if f'id="queuemgr.{name}"' in source} == set(WRONG)
    assert source.count('id="queuemgr.') == len(WRONG)


@pytest.mark.parametrize("app", sorted(NEEDED_APPS))
def test_each_app_the_pages_need_is_asked_for_by_its_name(app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    is_installed = apps.is_installed
    monkeypatch.setattr(apps, "is_installed", lambda name: name != app and is_installed(name))
    assert repr(app) in str(found()["E101"].hint)


def test_a_project_without_the_app_of_pages_hears_nothing_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    is_installed = apps.is_installed
    monkeypatch.setattr(apps, "is_installed", lambda name: name != "queuemgr.web" and is_installed(name))
    assert found() == {}
