"""`queue replay` on a fleet's own record: what it reads, what it compares, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from queuemgr.models import Attempt, Execution, Limit, Outcome
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from queuemgr.web.api import what_if
from tests.integration.cli.commands import queue
from tests.integration.web.api.api_client import api, problem

pytestmark = pytest.mark.django_db(transaction=True)
BEGAN = datetime(2026, 5, 4, 6, tzinfo=UTC)


@pytest.fixture
def recorded(transactional_db: None, sent: list[Any], probes: Any) -> None:
    """Six paid attempts of ten seconds, all due at six o'clock, two at a time; the last without the
    column old rows lack."""
    limit_rows.sync()
    executions = probes(6, limit_key="host:a", requests=1)
    Attempt.objects.bulk_create(
        _attempt(execution, BEGAN + timedelta(seconds=10 * (number // 2)), number)
        for number, execution in enumerate(executions)
    )


def _attempt(execution: Execution, started: datetime, number: int) -> Attempt:
    return Attempt(
        lease_id=uuid4(), execution=execution, phase="prep", step="probe", priority=1,
        limit_keys="host:a", cost=1, worker="w", due_at=BEGAN if number < 5 else None,
        leased_at=started, started_at=started, ended_at=started + timedelta(seconds=10),
        outcome=Outcome.DONE,
    )  # fmt: skip


def test_a_replay_compares_the_recording_with_current_and_with_changed_limits(recorded: None) -> None:
    (found,) = queue(
        "replay", "--since", "2026-05-04 06:00", "--set", "host:*.max_running=1",
        "--set", "fleet.daily_budget=5", "--set", "fleet.reserved_for_high_percent=0", "--slots", 4, "--json",
    ).records  # fmt: skip
    assert found.keys() == {"slots", "recorded", "as_is", "changed"}
    assert found["recorded"].keys() == {
        "attempts", "per_hour", "makespan", "waits", "requests", "used", "stopped_by_budget", "never",
    }  # fmt: skip
    assert [found[run]["attempts"] for run in ("recorded", "as_is", "changed")] == [6, 6, 6]
    assert found["recorded"]["makespan"] == 30
    assert found["as_is"]["makespan"] == pytest.approx(30, abs=0.01), "the sixth is due at 20 s"
    assert found["changed"]["requests"] == {"2026-05-04": 5, "2026-05-05": 1}
    assert found["changed"]["stopped_by_budget"] == 1
    assert found["recorded"]["waits"]["normal"] == {
        "count": 6, "median": 5, "p95": 20, "longest": 20,
    }  # fmt: skip


def test_a_change_of_a_pattern_holds_for_a_key_of_it_that_is_only_paused(recorded: None) -> None:
    controls.pause("host:a", Actor("ann", "test"))
    change = ("--set", "host:*.max_running=1", "--slots", 4, "--json")
    (found,) = queue("replay", "--since", "2026-05-04 06:00", *change).records
    spans = [found[run]["makespan"] for run in ("as_is", "changed")]
    assert spans == [pytest.approx(30, abs=0.01), pytest.approx(60, abs=0.01)]


@pytest.mark.usefixtures("static_root")
def test_the_api_replays_what_the_command_does_up_to_so_many_attempts(
    recorded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"since": "2026-05-04 06:00", "changes": ["host:*.max_running=1"], "slots": 4}
    command = ("replay", "--since", "2026-05-04 06:00", "--set", "host:*.max_running=1", "--slots", 4)
    assert api().post("what-if", asked).json()["replay"] == queue(*command, "--json").records[0]
    monkeypatch.setattr(what_if, "MOST_ATTEMPTS", 5)
    assert "more than 5 attempts" in problem(api(name="again").post("what-if", asked), "invalid")["detail"]


@pytest.mark.parametrize(
    ("change", "days"),
    [
        ("host:a.usd/day=0.4", [4, 2]), ("host:a.usd/day=0.2 usd/day in Asia/Tokyo", [4, 2]),
        ("host:a.usd/day=none", [6]), ("host:a.allowances=0.3 usd/day", [3, 3]),
    ],
)  # fmt: skip
def test_any_allowance_can_be_changed_and_what_is_used_is_shown_by_day(
    recorded: None, change: str, days: list[int]
) -> None:
    Attempt.objects.update(uses="usd=100000", limit_keys="host:a tenant:acme")
    Limit.objects.create(name="host:a", allowances="20 usd/day; 90 tokens/minute")
    asked = ("replay", "--since", "2026-05-04 06:00", "--set", change)
    (found,) = queue(*asked, "--json").records
    assert found["as_is"]["used"] == {"2026-05-04": {"usd": 600_000}}
    assert [used["usd"] // 100_000 for used in found["changed"]["used"].values()] == days
    assert "usd on 2026-05-04" in queue(*asked).out
    assert Limit.objects.get(name="host:a").allowances == "20 usd/day; 90 tokens/minute"


def test_the_table_shows_the_runs_side_by_side_and_no_limit_is_changed(recorded: None) -> None:
    before = list(Limit.objects.values())
    result = queue("replay", "--since", "2026-05-04 06:00", "--set", "phase:prep.rate=1/1m")
    assert result.code == 0
    assert result.lines[0] == "6 attempts on 2 slots"
    assert "recorded" in result.lines[1] and "replayed with the changes" in result.lines[1]
    assert any(line.startswith("waits, normal: p50 / p95 / max") for line in result.lines)
    assert list(Limit.objects.values()) == before


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--set", "fleet.max_runing=3"), "limit 'fleet' has no field 'max_runing'; there are: max_"),
        (("--set", "phase:perp.max_running=3"), "no limit is called 'phase:perp'; there are: "),
        (("--set", "fleet.max_running=many"), "fleet.max_running=many: "),
        (("--set", "fleet.rate=fast"), "fleet.rate: rate 'fast' is not understood; write it like"),
        (("--set", "fleet.share=0"), "fleet.share=0: Ensure this value is greater than or equal to 1"),
        (("--set", "fleet.usd/day=3"), "no allowance is called 'usd/day'; there are: none. Write a new"),
        (("--set", "fleet.usd/day=3 usd/month"), "'3 usd/month' is the allowance usd/month, not usd/day"),
        (("--set", "fleet.usd/day=3 cats/day"), "no meter is called 'cats'"),
        (("--set", "fleet"), "'fleet' is not a change; write LIMIT.FIELD=VALUE"),
        (("--until", "2026-05-04 05:00"), "nothing was recorded between 2026-05-04 06:00 UTC and"),
        (("--until", "noon"), "'noon' is not a time; write 2026-11-28 06:00"),
    ],
)  # fmt: skip
def test_invalid_arguments_are_refused_with_the_valid_form(
    recorded: None, arguments: tuple[str, ...], error: str
) -> None:
    result = queue("replay", "--since", "2026-05-04 06:00", *arguments)
    assert error in result.error
    assert (result.code != 0, result.out) == (True, "")
