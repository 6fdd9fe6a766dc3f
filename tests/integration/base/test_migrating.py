"""Several workers that start beside a new database migrate it once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from queuemgr.base import migrating

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def migrations(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Any) -> list[str]:
    """Stand-ins that take their time; what was applied."""
    applied: list[str] = []

    def apply(command: str, **options: Any) -> None:
        time.sleep(0.3)
        applied.append(command)

    monkeypatch.setattr(migrating, "call_command", apply)
    monkeypatch.setattr(migrating, "_are_due", lambda name: not applied)
    settings.SLUICE_DATA_DIR = tmp_path / "data"
    return applied


def test_of_those_that_migrate_at_once_one_does_and_the_others_wait(
    migrations: list[str], in_threads: Callable[..., list[Any]]
) -> None:
    seen = in_threads(4, lambda number: (migrating.migrate(verbosity=0), list(migrations))[1])
    assert migrations == ["migrate"]
    assert seen == [["migrate"]] * 4, "nobody continues before it is done"


def test_whoever_fails_leaves_the_lock_to_the_next(
    migrations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(command: str, **options: Any) -> None:
        raise RuntimeError("no space")

    with monkeypatch.context() as once:
        once.setattr(migrating, "call_command", fail)
        with pytest.raises(RuntimeError, match="no space"):
            migrating.migrate()
    migrating.migrate()
    assert migrations == ["migrate"]


def test_a_database_that_is_up_to_date_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "call_command", lambda *args, **options: pytest.fail("it migrated"))
    migrating.migrate()
