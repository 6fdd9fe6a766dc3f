"""An upgrade names error kinds of models' answers as new work does, wherever they are stored."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from queuemgr.base.errors import ConfigurationError
from queuemgr.lifecycle import renamed_error_kinds
from queuemgr.lifecycle.error_fingerprint import fingerprint
from queuemgr.models import Attempt, Execution, MinuteStats, Outcome, RetryPolicy, State

(operation,) = import_module("pipeline.migrations.0009_names_of_error_kinds").Migration.operations
pytestmark = pytest.mark.django_db


def test_an_upgrade_and_its_undo_rename_error_kinds_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renamed_error_kinds, "ROWS", 1)
    now = timezone.now()
    for number, kind in enumerate(("withheld", "withheld", "cut_off", "network")):
        row = Execution.objects.create(
            flow="papers", key=str(number), phase="analyze", step="analyse", state=State.FAILED,
            finished_at=now, error_kind=kind, error_message="no", error_fingerprint="old",
        )  # fmt: skip
        Attempt.objects.create(
            lease_id=uuid4(), execution=row, phase="analyze", step="analyse", priority=1, cost=0,
            leased_at=now, started_at=now, ended_at=now, outcome=Outcome.FAILED, error_kind=kind,
        )  # fmt: skip
    MinuteStats.objects.create(
        minute=now, phase="analyze", priority=1, outcome=Outcome.FAILED, error_kind="withheld", attempts=2
    )
    for kind in ("withheld", "content_filtered"):
        RetryPolicy.objects.create(kind=kind, max_attempts=7 if kind == "withheld" else 1)
    schema = SimpleNamespace(connection=connection)
    operation.code(apps, schema)
    assert kinds() == ["content_filtered", "content_filtered", "truncated", "network"]
    assert Execution.objects.get(key="0").error_fingerprint == fingerprint(
        "content_filtered", "analyse", "no"
    )
    assert Execution.objects.get(key="3").error_fingerprint == "old"
    assert MinuteStats.objects.get().error_kind == "content_filtered"
    assert [(row.kind, row.max_attempts) for row in RetryPolicy.objects.filter(kind__contains="t")] == [
        ("content_filtered", 7)
    ], "what an operator stated is kept"
    operation.reverse_code(apps, schema)
    assert kinds() == ["withheld", "withheld", "cut_off", "network"]


def test_statistics_of_both_names_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renamed_error_kinds, "ROWS", 1)
    now, numbers = timezone.now(), {"waited": [1, 2], "ran": [0, 3], "cost": 2}
    for phase in ("analyze", "fetch"):
        for kind, used in (("withheld", {"tokens": 3}), ("content_filtered", None)):
            MinuteStats.objects.create(
                minute=now, phase=phase, priority=1, outcome=Outcome.FAILED, error_kind=kind, attempts=2,
                used=used, **numbers,
            )  # fmt: skip
    operation.code(apps, SimpleNamespace(connection=connection))
    for row in MinuteStats.objects.all():
        assert (row.error_kind, row.attempts, row.cost) == ("content_filtered", 4, 4)
        assert (row.used, row.waited, row.ran) == ({"tokens": 3}, [2, 4], [0, 6])
    assert MinuteStats.objects.count() == 2


@pytest.mark.parametrize("names", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c"}])
def test_a_name_that_is_old_and_new_is_refused(names: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="old and new name at once: "):
        renamed_error_kinds.RenameErrorKinds(names)


def kinds() -> list[str]:
    found = list(Execution.objects.order_by("pk").values_list("error_kind", flat=True))
    assert found == list(Attempt.objects.order_by("pk").values_list("error_kind", flat=True))
    return found
