"""The search over everything: what it finds by which text, in what order, and within which time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from queuemgr.base import sql
from queuemgr.base.bounded_reading import TookTooLong, bounded
from queuemgr.extend.search import Found, search_provider
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Attempt, Batch, Execution, Outcome, RouteLimit, Worker
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.reporting import search as everything
from queuemgr.reporting.search import found as registry
from queuemgr.reporting.search import search
from queuemgr.scheduling import limit_rows

pytestmark = pytest.mark.django_db
BY = Actor("sam", "command", "")


def anything(permission: str) -> bool:
    return True


def names(text: str, may: Callable[[str], bool] = anything) -> dict[str, list[str]]:
    return {group.kind: [each.text for each in group.found] for group in search(text, may)}


@pytest.fixture
def work(sent: list[Any]) -> Execution:
    limit_rows.sync()
    for key in ("doi:10.1234/abc", "doi:10.1234/abcdef", "10.1234", "100%_sure", "1000_sure"):
        enqueue("probe", key, {"limit_key": "host:quick.example:443", "secret": "SESAME"})
    return Execution.objects.get(key="doi:10.1234/abc")


def test_a_key_is_found_by_any_part_of_it_in_either_case_and_the_best_match_comes_first(
    work: Execution,
) -> None:
    assert names("10.1234")["Executions"] == ["10.1234", "doi:10.1234/abc", "doi:10.1234/abcdef"]
    assert names("/ABC")["Executions"] == ["doi:10.1234/abc", "doi:10.1234/abcdef"]
    assert names("%_s") == {"Executions": ["100%_sure"]}


def test_an_execution_is_found_by_its_id_and_by_the_id_of_a_task_in_celerys_log(work: Execution) -> None:
    now, task = timezone.now(), uuid4()
    Attempt.objects.create(
        lease_id=task, execution=work, phase=work.phase, step=work.step, priority=1, cost=0, worker="w@h",
        leased_at=now, started_at=now, ended_at=now, outcome=Outcome.FAILED,
    )  # fmt: skip
    assert work.key in names(str(work.pk))["Executions"]
    assert names(str(task)) == {"Executions": [work.key]}


def test_what_has_a_name_is_found_by_a_part_of_it(work: Execution) -> None:
    now = timezone.now()
    Worker.objects.create(
        name="w1@Quick-host", host="Quick-host", pid=1, slots=8, started_at=now, seen_at=now
    )
    Batch.objects.create(name="quick ones")
    controls.edit_limit("tenant:quicksilver", BY, max_running=2)
    Execution.objects.filter(pk=work.pk).update(error_kind="timeout", error_message="Not QUICK enough")
    found = names("quick")
    assert RouteLimit.objects.filter(name="host:quick.example:443").exists()
    assert found == {
        "Batches": ["quick ones"],
        "Failures": ["Not QUICK enough"],
        "Limits": ["tenant:quicksilver", "host:quick.example:443"],
        "Workers": ["w1@Quick-host"],
    }
    assert next(iter(found)) == "Batches"  # begins with it


def test_payloads_are_not_searched_and_only_kinds_that_one_may_see(work: Execution) -> None:
    Batch.objects.create(name="abc")
    assert names("SESAME") == {}
    assert names("abc", lambda permission: permission == "queuemgr.view_batch") == {"Batches": ["abc"]}


@pytest.mark.parametrize("text", ["", "  ", "\x00", "%", "!", "'", "\\", "x" * 5_000, "9" * 100, "\ud800"])
def test_no_text_makes_a_search_fail(text: str) -> None:
    assert not any(group.problem for group in search(text, anything))


@pytest.fixture
def provider() -> Iterator[Callable[[Any], None]]:
    def add(find: Any) -> None:
        search_provider("Orders", "queuemgr.view_batch")(find)

    yield add
    registry._kinds.pop("Orders", None)


def test_an_application_adds_a_kind_of_its_own(provider: Callable[[Any], None]) -> None:
    def orders(text: str, at_most: int) -> Iterable[Found]:
        return (Found(f"{text}-{n}", "", "shop_order_change", (n,)) for n in range(100))

    provider(orders)
    (group,) = search("order", lambda permission: permission == "queuemgr.view_batch")
    assert (group.kind, len(group.found), group.more) == ("Orders", everything.AT_MOST, True)


def raises(text: str, at_most: int) -> Iterable[Found]:
    raise LookupError("no such shop")


def exits(text: str, at_most: int) -> Iterable[Found]:
    raise SystemExit(3)


def returns_texts(text: str, at_most: int) -> Any:
    return [text]


@pytest.mark.parametrize("wrong", [raises, exits, returns_texts])
def test_one_that_fails_leaves_the_other_kinds_as_they_are(
    wrong: Any, provider: Callable[[Any], None], work: Execution, caplog: pytest.LogCaptureFixture
) -> None:
    provider(wrong)
    found = search("abc", anything)
    assert {group.kind: bool(group.problem) for group in found} == {"Executions": False, "Orders": True}


SLOW = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900000000) SELECT max(i) FROM n"
)


def test_a_statement_that_reads_too_much_is_stopped_and_the_next_one_is_not(
    provider: Callable[[Any], None], work: Execution
) -> None:
    def slow(text: str, at_most: int) -> Iterable[Found]:
        sql.value(SLOW)
        return []

    provider(slow)
    found = search("abc", anything)
    assert {group.kind: group.problem for group in found} == {
        "Executions": "", "Orders": "There are too many to read in 0.8 s.",
    }  # fmt: skip
    with pytest.raises(TookTooLong), bounded(0.05):
        sql.value(SLOW)
    with bounded(60):
        assert sql.value("SELECT 1") == 1
    if sql.connection.vendor == "postgresql":
        assert sql.column("SELECT current_setting('statement_timeout')") != ["1min"]
