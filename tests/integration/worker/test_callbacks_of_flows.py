"""A flow's callback that fails stops no other flow, and its failure is shown by flow and callback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from queuemgr.base.errors import BadInput, QueueFull
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import callbacks, flow
from queuemgr.flows.callbacks import CallbackFailed
from queuemgr.flows.flow import CheckResult, Flow, Link, NewExecution, Phase, Step
from queuemgr.lifecycle import callback_failures
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.local import doctor
from queuemgr.models import CallbackFailure, Execution, Limit
from queuemgr.reporting import dashboard
from queuemgr.reporting.export import exported
from queuemgr.scheduling import limit_rows
from queuemgr.worker import housekeeping
from tests.integration.cli.commands import queue

pytestmark = pytest.mark.django_db(transaction=True)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise SystemExit("not even this")


def _raises(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    def callback(*arguments: Any) -> Any:
        raise error

    return callback


def _generates_then_raises(*arguments: Any) -> Iterator[Any]:
    raise SystemExit(2)
    yield


class Hostile:
    """An object whose every use raises."""

    def __getattr__(self, name: str) -> Any:
        raise MemoryError(name)

    def __iter__(self) -> Any:
        raise GeneratorExitLike


class GeneratorExitLike(BaseException):
    pass


RAISED: dict[str, Callable[..., Any]] = {
    "an error": _raises(KeyError("host")),
    "SystemExit": _raises(SystemExit(1)),
    "a BaseException of its own": _raises(GeneratorExitLike),
    "one whose message raises": _raises(Unprintable),
    "one whose message is no text": _raises(ValueError("\x00half \ud800 of it")),
    "StopIteration": _raises(StopIteration),
    "a recursion": lambda *a: RAISED["a recursion"](*a),
    "a generator that raises": _generates_then_raises,
}
RUBBISH: dict[str, Callable[..., Any]] = {
    "None": lambda *a: None,
    "a set": lambda *a: {1},
    "a float": lambda *a: float("nan"),
    "minus one": lambda *a: -1,
    "bytes": lambda *a: b"x",
    "a class": lambda *a: Exception,
    "an object whose use raises": lambda *a: Hostile(),
}
MISBEHAVIOUR = {**RAISED, **RUBBISH}

GOOD: dict[str, Callable[..., Any]] = {
    "backfill": lambda limit: 1,
    "cleanup": lambda: 1,
    "limits": lambda: {"host:good": {"max_running": 3}},
    "export": lambda keys: {key: {"title": "good"} for key in keys},
    "checks": lambda: [CheckResult("good", "the good flow's check")],
    "link": lambda key: f"/{key}",
    "artifacts": lambda key: [Link("file", f"/files/{key}")],
    "register_items": lambda items: list(items),
    "parse_item": NewExecution,
    "parse_remote_item": NewExecution,
}


def make_flow(name: str, **given: Callable[..., Any]) -> Flow:
    phase = Phase("prep", 2, "waiting", "running", (Step("one", "odd.one"),))
    return Flow(name, (phase,), **{**GOOD, **given})  # type: ignore[arg-type]


@contextmanager
def registered(*flows: Flow) -> Iterator[None]:
    before = dict(flow._flows)
    flow._flows.clear()
    flow._flows.update({each.name: each for each in flows})
    try:
        yield
    finally:
        flow._flows.clear()
        flow._flows.update(before)


@pytest.fixture(autouse=True)
def _nothing_is_sent(sent: list[Any], tmp_path: Any) -> None:
    (tmp_path / "items.txt").write_text("a\nb\n")


@pytest.fixture
def items(tmp_path: Any) -> str:
    return str(tmp_path / "items.txt")


def _call_everything() -> SimpleNamespace:
    """What the periodic jobs and `doctor` made of the callbacks of the two flows, by the callback."""
    limit_rows.sync()
    return SimpleNamespace(
        backfill=housekeeping.backfill(10),
        cleanup=housekeeping.prune()["files"],
        limits=set(Limit.objects.filter(name__startswith="host:").values_list("name", flat=True)),
        export=[row["item"] for row in exported(Execution.objects.order_by("pk"))],
        checks=[result.what for result in doctor.run_checks()],
    )


@pytest.mark.parametrize("name", ["backfill", "cleanup", "limits", "export", "checks"])
def test_a_callback_that_fails_stops_no_other_flow_and_is_named(name: str) -> None:
    with registered(make_flow("odd"), make_flow("good")):
        enqueue("odd", "x")
        enqueue("good", "y")
    for how, misbehave in MISBEHAVIOUR.items():
        with registered(make_flow("odd", **{name: misbehave}), make_flow("good")):
            done = _call_everything()
            checks = [result.what for result in doctor.run_checks()]
        assert done.backfill == {"odd": 0 if name == "backfill" else 1, "good": 1}, how
        assert done.cleanup == (1 if name == "cleanup" else 2), how
        assert "host:good" in done.limits, how
        assert done.export[1] == {"title": "good"}, how
        assert "the good flow's check" in done.checks, how
        assert any(what.startswith(f"flow odd: {name} r") for what in checks), how
        row = CallbackFailure.objects.get()
        assert (row.flow, row.callback) == ("odd", name), how
        assert any(row.problem in alarm.text for alarm in dashboard.read().alarms), how
        callback_failures._seen.forget()
        row.delete()


@pytest.mark.parametrize("name", ["parse_item", "register_items"])
def test_a_line_whose_callback_fails_is_named_and_the_import_goes_on(name: str, items: str) -> None:
    for how, misbehave in RAISED.items():

        def only_a_fails(item: Any, fail: Callable[..., Any] = misbehave) -> Any:
            given = item if isinstance(item, str) else list(item)
            return fail() if "a" in given else GOOD[name](item)

        with registered(make_flow("odd", **{name: only_a_fails})):
            hold = ["--hold"] if name == "register_items" else []
            result = queue("import", items, *hold)
        assert result.code == 2, how
        assert result.lines[0].endswith("1 bad"), how
        assert result.lines[1].startswith(f"line 1: flow odd: {name} r"), how


@pytest.mark.parametrize("name", ["link", "artifacts"])
def test_the_page_of_an_execution_says_which_callback_failed(name: str, superuser: Client) -> None:
    with registered(make_flow("odd")):
        enqueue("odd", "x")
    pk = Execution.objects.get().pk
    for how, misbehave in MISBEHAVIOUR.items():
        with registered(make_flow("odd", **{name: misbehave})):
            page = superuser.get(f"/admin/queuemgr/execution/{pk}/change/")
        text = page.content.decode()
        assert page.status_code == 200, how
        assert f"flow odd: {name} r" in text, how
        assert ("/files/x" in text) == (name == "link"), how


@pytest.mark.parametrize("error", [BadInput("no such order"), QueueFull("prep.low", 3, 3, 2)])
def test_what_a_callback_refuses_on_purpose_is_no_failure_of_it(error: Exception) -> None:
    odd = make_flow("odd", parse_item=_raises(error), backfill=_raises(error))
    with pytest.raises(type(error)) as refused:
        callbacks.parse_item(odd, "x")
    assert not isinstance(refused.value, CallbackFailed)
    assert not CallbackFailure.objects.exists()


def test_ctrl_c_is_not_taken_for_a_failure() -> None:
    with pytest.raises(KeyboardInterrupt):
        callbacks.cleanup(make_flow("odd", cleanup=_raises(KeyboardInterrupt)))


def test_a_failure_is_forgotten_once_the_callback_works_again_or_after_a_day() -> None:
    with pytest.raises(CallbackFailed):
        callbacks.backfill(make_flow("odd", backfill=_raises(OSError)), 1)
    callbacks.backfill(make_flow("odd"), 1)
    assert not CallbackFailure.objects.exists()
    with pytest.raises(CallbackFailed):
        callbacks.link(make_flow("odd", link=_raises(OSError)), "x")
    assert callback_failures.prune(database_now() + timedelta(hours=23)) == 0
    assert callback_failures.prune(database_now() + timedelta(hours=25)) == 1


def test_the_backfill_command_names_the_flow_whose_callback_failed_and_starts_the_others() -> None:
    with registered(make_flow("odd", backfill=_raises(SystemExit(0))), make_flow("good")):
        result = queue("backfill")
    assert result.code == 2
    assert result.lines == ["odd: 0 started; flow odd: backfill raised SystemExit: 0", "good: 1 started"]


def test_a_limit_no_row_can_hold_is_named_and_the_other_flows_are_in_force() -> None:
    odd = make_flow("odd", limits=lambda: {"host:odd": {"rate": "often"}})
    with registered(odd, make_flow("good")):
        limit_rows.sync()
    assert not Limit.objects.filter(name="host:odd").exists()
    assert Limit.objects.get(name="host:good").max_running == 3
    assert "host:odd" in CallbackFailure.objects.get().problem
