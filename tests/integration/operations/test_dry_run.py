"""A dry run says what enqueueing would do, and leaves every table as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.db import connection
from django.test.utils import CaptureQueriesContext

from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows import flow as flows
from queuemgr.flows.flow import NORMAL, Flow, NewExecution, Phase, Step
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.models import Attempt, Execution, Queue
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.operations.dry_run import DryRun
from queuemgr.operations.dry_run_forecast import as_data
from queuemgr.reporting import later_steps, stats
from tests.integration.cli.commands import queue
from tests.integration.conftest import PlayedWorker

pytestmark = pytest.mark.django_db(transaction=True)
ANN = Actor("ann", "test")


def all_rows() -> dict[str, list[Any]]:
    """Every row of every table."""
    return {
        model._meta.label: list(model._default_manager.order_by("pk").values()) for model in apps.get_models()
    }


@pytest.fixture
def limits(sent: list[Any]) -> None:
    controls.edit_limit("openai:gpt", ANN, new=True, allowances="3 usd/day; 100,000 tokens/hour")
    enqueue("probe", "there", {})


CALL = {"limit_key": "openai:gpt", "uses": {"usd": "0.5", "tokens": 2000}, "requests": 1}


def new(*keys: str, **payload: Any) -> list[NewExecution]:
    return [NewExecution(key, {**CALL, **payload}) for key in keys]


@pytest.mark.usefixtures("limits")
def test_it_counts_what_is_new_what_it_uses_and_what_that_exhausts() -> None:
    run = DryRun("probe", NORMAL)
    run.add([*new("a", "b", "c", "there", "a"), *new("never", uses={"usd": 4}), NewExecution("", {})])
    run.add(new("d", "e", "f", "g"))
    found = as_data(run, database_now())
    assert [found[name] for name in ("new", "already", "invalid", "refused")] == [7, 2, 2, 0]
    assert found["used"] == {"requests": 7, "tokens": 14_000, "usd": 3_500_000}
    (step,) = found["steps"]
    assert (step["phase"], step["step"], step["executions"], step["guessed"]) == ("prep", "probe", 7, False)
    by_name = {each["name"]: each for each in found["allowances"] if each["limit"] == "openai:gpt"}
    assert by_name["usd/day"]["exhausts"] and by_name["usd/day"]["adds"] == 3_500_000
    tomorrow = by_name["usd/day"]["resets_at"]
    assert by_name["usd/day"]["forecast"]["done_at"] == tomorrow, "the seventh"
    assert not by_name["tokens/hour"]["exhausts"]
    assert (found["eta"], found["because"]) == (None, "nothing went through prep in the last hour")
    assert any("above the allowance 3.00 usd/day" in problem for problem in found["problems"])


@pytest.mark.usefixtures("limits")
def test_what_it_says_is_what_enqueueing_does() -> None:
    given = [*new("a", "b", "there"), *new("b")]
    Queue.objects.filter(name="prep.normal").update(max_pending=2)
    run = DryRun("probe", NORMAL)
    said = run.add(given[:2])
    assert (said.new, run.refused) == (1, 1), "one waits there"
    Queue.objects.update(max_pending=0)
    run = DryRun("probe", NORMAL)
    said = run.add(given)
    done = enqueue_many("probe", given)
    assert (said.new, said.already) == (done.new, done.already) == (2, 2)


@pytest.mark.usefixtures("limits")
def test_the_end_is_expected_by_what_went_through_lately_and_by_allowances() -> None:
    now = database_now()
    for minutes in range(1, 31):
        ended = now - timedelta(minutes=minutes)
        execution = Execution.objects.create(
            flow="probe", key=f"done{minutes}", phase="prep", step="probe", priority=1, state="done",
            run_after=ended, created_at=ended, attempts_counted_since=ended, finished_at=ended,
        )  # fmt: skip
        Attempt.objects.create(
            execution=execution, phase="prep", step="probe", priority=1, outcome="done", cost=0,
            lease_id=uuid4(), leased_at=ended, started_at=ended,
            ended_at=ended,
        )  # fmt: skip
    run = DryRun("probe", NORMAL)
    run.add(new("a", "b", "c", uses={"tokens": 100}))
    found = as_data(run, database_now())
    (phase,) = found["phases"]
    assert (phase["unfinished"], phase["adds"]) == (1, 3)
    assert (phase["done_at"] - now).total_seconds() == pytest.approx(4 * 60, rel=0.2)
    assert found["eta"] == phase["done_at"]


def three_steps(needs_more: Callable[[Any], Any]) -> Flow:
    steps = (
        Step("look", lambda job: None, uses=lambda c: {"tokens": 10}),
        Step("ask", lambda job: None, uses=needs_more, cost=lambda c: 2),
        Step("skipped", lambda job: None, needed=lambda c: False),
        Step("tell", lambda job: None, key=lambda c: "smtp:a", uses=lambda c: {"bytes": 1000}),
    )
    return Flow("threefold", (Phase("prep", 0, "waiting", "running", steps),))


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("knows", [True, False])
def test_later_steps_are_counted_and_those_that_cannot_say_as_they_were_lately(
    knows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "_flows", dict(flows._flows))
    flows.register_flow(
        three_steps((lambda c: {"tokens": 500}) if knows else (lambda c: {"tokens": c["pages"]}))
    )
    run = DryRun("threefold", NORMAL)
    run.add([NewExecution("a", {}), NewExecution("b", {})])
    found = as_data(run, database_now())
    assert [(each["step"], each["guessed"]) for each in found["steps"]] == [
        ("look", False), ("ask", not knows), ("tell", False),
    ]  # fmt: skip
    requests = {"requests": 4} if knows else {}
    assert found["used"] == {**requests, "bytes": 2000, "tokens": 1020 if knows else 20}


@pytest.mark.usefixtures("limits")
def test_forecasts_count_every_step_that_waiting_and_running_work_has_before_it(
    monkeypatch: pytest.MonkeyPatch, played: Callable[..., PlayedWorker]
) -> None:
    monkeypatch.setattr(flows, "_flows", dict(flows._flows))
    flows.register_flow(three_steps(lambda c: {"tokens": 500}))
    controls.edit_limit("phase:prep", ANN, allowances="9,000 tokens/day; 40 requests/week")
    controls.edit_limit("smtp:a", ANN, new=True, allowances="1 bytes in total; 9,000 bytes/day")

    def waiting(limit: str) -> dict[str, int]:
        (found,) = [each for each in stats.limits() if each["limit"] == limit]
        later_steps._later.forget()
        return {a["name"]: a["forecast"]["waiting"] + a["forecast"]["never"] for a in found["allowances"]}

    many = 2 * later_steps.EXECUTIONS
    enqueue_many("threefold", [NewExecution(f"k{n}", {}) for n in range(many)])
    assert waiting("phase:prep") == {"tokens/day": 510 * many, "requests/week": 2 * many}
    assert waiting("smtp:a") == {"bytes/total": 1000 * many, "bytes/day": 1000 * many}
    worker = played(slots=2)  # the probe takes one
    dispatch()
    worker.begin_all()
    assert waiting("phase:prep") == {"tokens/day": 510 * many - 10, "requests/week": 2 * many}


@pytest.mark.usefixtures("limits")
def test_neither_command_writes_anything(tmp_path: Path) -> None:
    file = tmp_path / "papers"
    file.write_text("10.1000/a\n10.1000/b\n10.1000/a\nno such thing\n")
    before = all_rows()
    with CaptureQueriesContext(connection) as statements:
        papers = queue("import", file, "--dry-run", "--json")
        one = queue("enqueue", "10.1000/c", "--flow", "papers", "--dry-run")
        probes = queue("enqueue", "--flow", "probe", "--count", "3", "--uses", "usd=0.02", "--limit-key",
                       "openai:gpt", "--dry-run")  # fmt: skip
    assert all_rows() == before
    written = ("INSERT", "UPDATE", "DELETE")
    assert not [each["sql"] for each in statements if each["sql"].lstrip().upper().startswith(written)]
    assert papers.code == 2
    found = json.loads(papers.out)
    assert (found["new"], found["already"], found["invalid"]) == (2, 1, 1)
    assert found["problems"][0].startswith("line 4: ")
    assert one.out.startswith("nothing is written: 1 would be new, 0 already there")
    assert "openai:gpt" in probes.out and "3.00 usd/day" in probes.out and "0.06" in probes.out
    assert queue("import", file, "--dry-run", "--hold").code == 3
