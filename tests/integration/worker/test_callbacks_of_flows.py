"""A flow's callback that fails stops no other flow, and its failure is shown by flow and callback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client

from queuemgr.base import db_connection, errors, sql
from queuemgr.base.errors import BadInput, QueueFull, RuleFailed, SluiceError
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import callbacks, flow
from queuemgr.flows.callbacks import CallbackFailed
from queuemgr.flows.flow import CheckResult, Flow, Link, NewExecution, Phase, Step
from queuemgr.lifecycle import callback_failures
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.local import doctor
from queuemgr.models import CallbackFailure, Execution, Limit, Worker
from queuemgr.reporting import dashboard
from queuemgr.reporting.export import exported
from queuemgr.scheduling import limit_rows
from queuemgr.worker import beat, housekeeping, process_wide, worker_row
from queuemgr.worker.current_worker import CurrentWorker
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
    "a rule that fails": _raises(RuleFailed("flow odd: key of step one raised KeyError: 'host'")),
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
SEEN_BY_EVERYBODY = (
    "SystemExit",
    "a rule that fails",
    "a generator that raises",
    "an object whose use raises",
)
"""Of each kind one, for the slow tests that look at the whole; each callback by itself is tried with all."""

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


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "backfill": (10,), "cleanup": (), "limits": (limit_rows.check,), "export": (["x"],), "checks": (),
    "link": ("x",), "artifacts": ("x",), "register_items": (["x"],), "parse_item": ("x",),
    "parse_remote_item": ("x",), "forget": (["x"],),
}  # fmt: skip


def call(name: str, callback: Callable[..., Any]) -> Any:
    return getattr(callbacks, name)(make_flow("odd", **{name: callback}), *ARGUMENTS[name])


def fails(name: str, callback: Callable[..., Any]) -> str:
    """Call it; what its failure says. The one of `checks` is among its results."""
    if name == "checks":
        return str(call(name, callback)[-1].what)
    with pytest.raises(CallbackFailed) as failed:
        call(name, callback)
    return str(failed.value)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_whatever_a_callback_raises_or_returns_is_named_and_kept(name: str) -> None:
    shapeless = ("register_items", "forget")
    for how, misbehave in (RAISED if name in shapeless else MISBEHAVIOUR).items():
        callback_failures._seen.forget()
        said = fails(name, misbehave)
        assert said.startswith(f"flow odd: {name} r"), how
        assert CallbackFailure.objects.get().problem in said, how


def _of_the_queue() -> list[SluiceError]:
    """One of each error the queue itself raises."""
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SluiceError)
    ]
    special = {
        QueueFull: ("prep.low", 3, 3, 2),
        errors.NameTaken: ("w", "h", 1, 0.5),
        errors.BadPayload: ("no", {"a": "b"}),
        errors.StepFailed: ("k", "m"),
        errors.MissingExtra: ("web", ["unfold"]),
    }
    return [kind(*special.get(kind, ("no",))) for kind in kinds]


REFUSED = {
    "backfill": QueueFull,
    **dict.fromkeys(("parse_item", "parse_remote_item", "register_items"), (BadInput, QueueFull)),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_error_of_the_queue_in_a_callback_passes_only_where_its_caller_expects_it(name: str) -> None:
    for error in _of_the_queue():
        CallbackFailure.objects.all().delete()
        if isinstance(error, REFUSED.get(name, ())):
            with pytest.raises(type(error)) as refused:
                call(name, _raises(error))
            assert refused.value is error and not CallbackFailure.objects.exists()
        else:
            assert f"flow odd: {name} raised" in fails(name, _raises(error)), error


def _enters(block: Any) -> None:
    block.__enter__()


def _two_blocks() -> None:
    _enters(transaction.atomic())
    _enters(transaction.atomic())


LEFT_OPEN: dict[str, Callable[[], Any]] = {
    "a transaction": lambda: _enters(transaction.atomic()),
    "one in another": _two_blocks,
    "one in a database block": lambda: (_enters(db_connection.database()), _enters(transaction.atomic())),
    "one that must roll back": lambda: (_two_blocks(), transaction.set_rollback(True)),
    "one whose connection was closed": lambda: (_two_blocks(), connection.close()),
    "no autocommit": lambda: transaction.set_autocommit(False),
    "a BEGIN of its own": lambda: sql.run("BEGIN"),
}


def _leaves_open(name: str, leave: Callable[[], Any], *, raises: bool = False) -> Callable[..., Any]:
    def callback(*arguments: Any) -> Any:
        leave()
        if connection.connection is not None and not connection.needs_rollback:
            CallbackFailure.objects.create(
                flow="odd", callback="written", since=database_now(), last_at=database_now()
            )
        if raises:
            raise KeyError("host")
        return GOOD[name](*arguments)

    return callback


@pytest.mark.parametrize("how", LEFT_OPEN)
@pytest.mark.parametrize("raises", [False, True])
def test_a_transaction_a_callback_leaves_open_is_rolled_back_and_named(how: str, raises: bool) -> None:
    for name in GOOD:
        callback_failures._seen.forget()
        said = fails(name, _leaves_open(name, LEFT_OPEN[how], raises=raises))
        assert ("raised KeyError" if raises else "left a transaction open") in said
        assert not connection.in_atomic_block and db_connection.open_blocks() == 0
        connection.close()
        assert not CallbackFailure.objects.filter(callback="written").exists()
        assert CallbackFailure.objects.filter(callback=name).exists(), "written after it"


def test_what_the_caller_of_a_callback_has_written_stays_though_the_callback_left_a_block_open() -> None:
    with transaction.atomic(), db_connection.database():
        Limit.objects.create(name="host:before")
        fails("forget", _leaves_open("cleanup", _two_blocks))
        Limit.objects.create(name="host:after")
    connection.close()
    assert Limit.objects.filter(name__in=["host:before", "host:after"]).count() == 2
    assert not CallbackFailure.objects.filter(callback="written").exists()


def test_a_callback_may_be_called_while_its_caller_reads_at_one_point_in_time() -> None:
    with db_connection.consistent_read():
        assert call("link", GOOD["link"]) == "/x"


def test_a_thread_continues_with_its_jobs_after_one_left_a_transaction_open(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "claim", lambda *args, **kwargs: _two_blocks())
    for _ in range(2):
        beat.tick()
        with db_connection.database():
            assert database_now()
    assert len(caplog.messages) == 2
    assert caplog.messages[1].endswith("it left a transaction open, whose writes were rolled back")


def test_limits_that_take_their_time_hold_no_row_and_are_not_read_again_by_a_heartbeat(
    make_worker: Callable[..., Worker],
) -> None:
    def slow() -> Any:
        assert not connection.in_atomic_block
        calls.append(1)
        return GOOD["limits"]()

    calls: list[int] = []
    with registered(make_flow("odd", limits=slow)):
        limit_rows.sync()
        worker = CurrentWorker(make_worker(), limits=limit_rows.stated())
        Worker.objects.all().delete()
        Limit.objects.all().delete()
        calls.clear()
        worker_row.beat(worker)
    assert not calls and Worker.objects.exists() and Limit.objects.filter(name="host:good").exists()


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
    for how in SEEN_BY_EVERYBODY:
        with registered(make_flow("odd", **{name: MISBEHAVIOUR[how]}), make_flow("good")):
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
def test_a_line_whose_callback_fails_is_named_and_the_import_continues(name: str, items: str) -> None:
    for how in set(SEEN_BY_EVERYBODY) & set(RAISED):

        def only_a_fails(item: Any, fail: Callable[..., Any] = RAISED[how]) -> Any:
            given = item if isinstance(item, str) else [each.key for each in item]
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
    for how in SEEN_BY_EVERYBODY:
        with registered(make_flow("odd", **{name: MISBEHAVIOUR[how]})):
            page = superuser.get(f"/admin/queuemgr/execution/{pk}/change/")
        text = page.content.decode()
        assert page.status_code == 200, how
        assert f"flow odd: {name} r" in text, how
        assert ("/files/x" in text) == (name == "link"), how


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


def test_only_a_database_of_ours_that_does_not_answer_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A callback may use a database of its own, or say COMMIT where there is nothing to commit."""
    watcher = callback_failures.DatabaseWatcher(process_wide.kept, process_wide.damage)
    of_theirs = OperationalError("could not connect to their own database")
    assert not watcher.is_outage(of_theirs)
    monkeypatch.setattr(callback_failures.sql, "value", Mock(side_effect=OperationalError("it is away")))
    assert watcher.is_outage(of_theirs)
