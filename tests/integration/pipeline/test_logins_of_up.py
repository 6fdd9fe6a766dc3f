"""The logins `up` makes: once, and what a person changed since stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from pipeline.management.commands.up import _flower, _login, _secret_in
from queuemgr.models import AuditEntry

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, settings: Any) -> Path:
    settings.SLUICE_DATA_DIR = tmp_path
    return tmp_path


def test_the_first_start_makes_a_superuser_and_records_it(tmp_path: Path) -> None:
    login = _login()
    user = User.objects.get(username=login.name)
    assert user.is_superuser and user.check_password(login.password)
    assert (tmp_path / "admin-password").read_text() == login.password
    assert (tmp_path / "admin-password").stat().st_mode & 0o077 == 0
    assert AuditEntry.objects.filter(action="add user", target="user admin").count() == 1
    assert _login() == login


def _changed_password(user: User) -> None:
    user.set_password("changed-because-it-leaked")
    user.save()


def _deactivated(user: User) -> None:
    user.is_active = False
    user.save()


def _demoted(user: User) -> None:
    User.objects.create_superuser("ann", password="of-her-own")
    user.is_superuser = user.is_staff = False
    user.save()


def _renamed(user: User) -> None:
    user.username = "root"
    user.save()


def _deleted(user: User) -> None:
    User.objects.create_superuser("ann", password="of-her-own")
    user.delete()


@pytest.mark.parametrize("change", [_changed_password, _deactivated, _demoted, _renamed, _deleted])
def test_what_a_person_changed_since_holds_at_the_next_start(change: Any) -> None:
    change(User.objects.get(username=_login().name))
    before = list(User.objects.order_by("pk").values())
    shown = _login()
    assert list(User.objects.order_by("pk").values()) == before
    assert change is _demoted or shown.password == "the password you set"


def test_a_lost_password_file_changes_no_password(tmp_path: Path) -> None:
    login = _login()
    (tmp_path / "admin-password").unlink()
    assert _login().password == "the password you set"
    assert User.objects.get(username="admin").check_password(login.password)


def test_flower_has_a_login_of_its_own_made_once(tmp_path: Path) -> None:
    password = _secret_in("flower-password")
    assert password == _secret_in("flower-password") != _login().password
    assert (tmp_path / "flower-password").stat().st_mode & 0o077 == 0


def test_flower_is_given_the_broker_and_its_login_only() -> None:
    from queuemgr.base.program_secrets import secret_variables

    environment = _flower(("flower", "its-own")).program.environment  # type: ignore[arg-type]  # no login
    assert environment["FLOWER_BASIC_AUTH"] == "flower:its-own"
    emptied = {name for name in secret_variables() if environment.get(name) == ""}
    assert secret_variables() - emptied == {"BROKER_URL"}
