"""An error of what follows a commit is not the caller's."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, transaction

from queuemgr.base.scheduler_lock import hold_scheduler_lock, look_for_marks_with
from queuemgr.lifecycle import dispatch as dispatching
from queuemgr.lifecycle import enqueue as enqueuing
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Execution

pytestmark = pytest.mark.django_db(transaction=True)

ERRORS = [OperationalError("gone away"), RuntimeError("broken"), KeyError("x")]


@pytest.fixture(params=ERRORS, ids=lambda error: type(error).__name__)
def broken(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    def fail() -> None:
        raise request.param

    monkeypatch.setattr(enqueuing, "dispatch", fail)
    look_for_marks_with(fail)
    yield fail
    look_for_marks_with(dispatching._dispatch_for_others)


@pytest.mark.parametrize("in_a_transaction", [False, True])
def test_work_that_is_stored_is_reported_so_though_the_decision_after_it_fails(
    in_a_transaction: bool, broken: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """And what the application has waiting for the same commit runs."""
    after: list[str] = []
    if in_a_transaction:
        with transaction.atomic():
            assert enqueue("probe", "one")
            transaction.on_commit(lambda: after.append("ran"))
    else:
        assert enqueue("probe", "one")
    assert Execution.objects.count() == 1 and after == ["ran"] * in_a_transaction
    assert "a change is stored, but what follows it failed" in caplog.text


def test_who_held_the_lock_is_not_failed_by_the_look_for_marks_after_it(broken: Any) -> None:
    after: list[str] = []
    with hold_scheduler_lock():
        transaction.on_commit(lambda: after.append("ran"))
    assert after == ["ran"]


def test_everything_that_follows_a_commit_of_the_queue_is_robust() -> None:
    root = Path(__file__).parents[3] / "queuemgr"
    plain = [
        f"{path.relative_to(root)}:{call.lineno}"
        for path in root.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "on_commit"
        and not any(keyword.arg == "robust" for keyword in call.keywords)
    ]
    assert not plain, "use after_commit, or robust=True where nothing can fail"
