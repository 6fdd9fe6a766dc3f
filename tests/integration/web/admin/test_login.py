"""Logging in: who guesses has to wait, failures are recorded without secrets, `next` leads nowhere else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import AuditEntry
from queuemgr.operations import logins

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]
LOGIN = "/admin/login/"
RIGHT = "ofCourse-1234"


@pytest.fixture(autouse=True)
def ann(settings: Any) -> Any:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return get_user_model().objects.create_superuser("ann", password=RIGHT)


def log_in(
    password: str, username: str = "ann", address: str = "192.0.2.1", query: str = "", **headers: str
) -> Any:
    form = {"username": username, "password": password}
    return Client(REMOTE_ADDR=address).post(f"{LOGIN}{query}", form, headers=headers)


def failures() -> list[tuple[str, str]]:
    return list(AuditEntry.objects.filter(action=logins.FAILED).values_list("actor", "target"))


def test_the_sixth_try_waits_even_with_the_right_password() -> None:
    for _ in range(logins.FROM_ONE_ADDRESS_TO_ONE_ACCOUNT):
        assert "correct username" in log_in("wrong").content.decode()
    assert "Too many failed logins: try again in 5 min." in log_in(RIGHT).content.decode()
    assert len(failures()) == 5, "who has to wait is not recorded again"
    assert log_in(RIGHT, address="192.0.2.2").status_code == 302, "its owner is not shut out"


def test_a_throttled_account_can_log_in_when_its_time_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(logins.FROM_ONE_ADDRESS_TO_ONE_ACCOUNT):
        log_in("wrong")
    monkeypatch.setattr(logins, "database_now", lambda: database_now() + logins.WINDOW)
    assert log_in(RIGHT).status_code == 302


def test_one_address_cannot_try_many_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "FROM_ONE_ADDRESS", 8)
    for n in range(8):
        log_in("wrong", username=f"user{n}")
    assert "Too many" in log_in(RIGHT).content.decode()


def test_one_account_cannot_be_tried_from_many_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "TO_ONE_ACCOUNT", 8)
    for n in range(8):
        log_in("wrong", address=f"198.51.100.{n}")
    assert "Too many" in log_in(RIGHT, address="203.0.113.9").content.decode()


def test_behind_our_proxy_the_address_is_the_one_it_added(settings: Any) -> None:
    log_in("wrong", **{"X-Forwarded-For": "198.51.100.7"})
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    log_in("wrong", **{"X-Forwarded-For": "made-up, 198.51.100.7"})
    assert [actor for actor, _ in failures()] == ["address 198.51.100.7", "address 192.0.2.1"]


def test_a_failure_is_recorded_without_a_password_and_with_unknown_names_masked() -> None:
    log_in("hunter2-secret")
    log_in("", username="my-own-password")
    log_in("x", username="my-own-password")
    log_in("x", username="\u202e" + "N" * 400)
    log_in("x", username="a\x00b")
    entries = "".join(str(vars(entry)) for entry in AuditEntry.objects.all())
    assert "hunter2" not in entries
    assert "own-password" not in entries
    targets = [target for _, target in failures()]
    assert "user ann" in targets
    assert all(len(target) < 40 for target in targets)
    assert any(target.startswith("unknown user m… ") for target in targets)


def test_no_more_failures_are_recorded_than_the_log_is_to_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "RECORDED", 3)
    for n in range(6):
        log_in("wrong", username=f"user{n}", address=f"198.51.100.{n}")
    assert len(failures()) == 3


def test_old_failures_count_no_more() -> None:
    assert timedelta(minutes=5) == logins.WINDOW
    assert logins.seconds_to_wait("ann", "192.0.2.1") == 0


@pytest.mark.parametrize(
    "to",
    ["https://evil.example/", "//evil.example", "javascript:alert(1)", "https:///evil.example", "\\\\evil"],
)
def test_a_login_with_a_foreign_next_leads_to_the_index(to: str) -> None:
    answer = log_in(RIGHT, query=f"?next={to}")
    assert (answer.status_code, answer["Location"]) == (302, reverse("admin:index"))
