"""What was used, added up from attempts: compared with adding them up one by one."""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from queuemgr import Meter, register_meter
from queuemgr.base import meters
from queuemgr.base.errors import BadInput
from queuemgr.base.written_times import moment
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Attempt, Batch, Execution, Outcome
from queuemgr.reporting import costs as reports
from queuemgr.reporting.costs import DIMENSIONS, MOST_ROWS, Costs, costs
from tests.integration.cli.commands import queue

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
KEYS = ("", "openai:gpt", "openai:gpt tenant:acme", "tenant:b\"\\'=% openai:gpt", "tenant:acme host:a:443")


@pytest.fixture
def executions(sent: list[Any]) -> list[Execution]:
    batch = Batch.objects.create(name="nightly")
    for n in range(4):
        enqueue("probe", f"k{n}", {})
    Execution.objects.filter(key="k1").update(batch=batch, batch_seq=1)
    return list(Execution.objects.select_related("batch").order_by("pk"))


def record(execution: Execution, ended: datetime, keys: str = "", **amounts: int) -> Attempt:
    cost = amounts.pop("requests", 0)
    return Attempt.objects.create(
        lease_id=uuid4(), execution=execution, phase="prep", step="probe", priority=1, cost=cost,
        uses=meters.as_text(amounts) or None, limit_keys=keys, leased_at=ended, started_at=ended,
        ended_at=ended, outcome=Outcome.DONE,
    )  # fmt: skip


def some_attempts(executions: list[Execution], seed: int) -> list[Attempt]:
    """Of the last three days, of which a part used nothing."""
    chance = random.Random(seed)
    names = ("requests", "tokens", "usd", "coins")
    return [
        record(
            chance.choice(executions),
            NOW - timedelta(seconds=chance.randrange(3 * 86_400)),
            chance.choice(KEYS),
            **{name: chance.randrange(9) for name in chance.sample(names, chance.randrange(4))},
        )
        for _ in range(60)
    ]


def names_of(by: str, attempt: Attempt, zone: str) -> Iterable[str]:
    """What an attempt counts for: another way to say it than that of the report."""
    execution, keys = attempt.execution, attempt.limit_keys.split()
    return {
        "tenant": lambda: [next((k[7:] for k in keys if k.startswith("tenant:")), "")],
        "flow": lambda: ["probe"],
        "step": lambda: ["prep/probe"],
        "model": lambda: [k for k in keys if k.startswith("openai:")] or [""],
        "limit": lambda: keys or [""],
        "day": lambda: [str(attempt.ended_at.astimezone(ZoneInfo(zone)).date())],
        "batch": lambda: ["nightly" if execution.batch_id else ""],
        "execution": lambda: [str(execution)],
    }[by]()


def one_by_one(by: str, attempts: Iterable[Attempt], zone: str) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for attempt in attempts:
        if used := meters.amounts_of(attempt.cost, attempt.uses or ""):
            for name in names_of(by, attempt, zone):
                found.setdefault(name, Counter()).update({"": 1, **used})
    return found


def by_name(report: Costs) -> dict[str, Counter[str]]:
    return {row.name: Counter({"": row.attempts, **row.amounts}) for row in report.rows}


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
@pytest.mark.parametrize("by", DIMENSIONS)
def test_amounts_by_anything_are_those_of_the_attempts_added_up_one_by_one(
    by: str, zone: str, executions: list[Execution]
) -> None:
    attempts = some_attempts(executions, seed=len(by))
    since, until = NOW - timedelta(days=2, hours=3), NOW - timedelta(hours=1)
    within = [each for each in attempts if since <= each.ended_at < until]
    report = costs(by, NOW, since=since, until=until, zone=zone)
    assert by_name(report) == one_by_one(by, within, zone)
    (total,) = one_by_one("flow", within, zone).values()
    assert Counter({"": report.total.attempts, **report.total.amounts}) == total
    assert (report.cut_off_before, report.left_out) == (None, 0)
    assert set(report.meters) == {"requests", "tokens", "usd", "coins"}, "also one that nobody registered"


@pytest.mark.parametrize("meter", ["requests", "tokens", "gpu_s"])
def test_of_one_meter_there_is_nothing_of_the_others(
    meter: str, executions: list[Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meters, "_meters", dict(meters._meters))
    register_meter(Meter("gpu_s"))
    record(executions[0], NOW - timedelta(hours=1), "tenant:a", gpuxs=5)
    record(executions[0], NOW - timedelta(hours=1), "tenant:b", requests=2, tokens=3, gpu_s=4)
    report = costs("tenant", NOW, meter=meter)
    assert [row.name for row in report.rows] == ["b"]
    assert (report.meters, set(report.rows[0].amounts), report.total.attempts) == ((meter,), {meter}, 1)


@pytest.mark.parametrize("uses", ["something", 'a"=1', "usd=", "usd=x tokens=3", "usd=1}", "=1", "{}", "\\"])
def test_what_a_hand_wrote_into_a_row_keeps_nobody_from_a_report(
    uses: str, executions: list[Execution]
) -> None:
    record(executions[0], NOW - timedelta(hours=1), usd=5)
    written = record(executions[0], NOW - timedelta(hours=1), requests=2)
    Attempt.objects.filter(pk=written.pk).update(uses=uses)
    assert costs("flow", NOW).total.amounts == {"usd": 5, "requests": 2}


def test_the_most_used_come_first_and_those_left_out_are_in_the_total(executions: list[Execution]) -> None:
    for n, execution in enumerate(executions):
        record(execution, NOW - timedelta(hours=1), requests=1, usd=n, tokens=10 - n)
    report = costs("execution", NOW, rows=2)
    assert [row.name for row in report.rows] == ["probe/k3", "probe/k2"]
    assert (report.left_out, report.total.amounts["usd"], report.ordered_by) == (2, 6, "usd")
    assert [row.row for row in report.rows] == [executions[3].pk, executions[2].pk]
    by_tokens = costs("execution", NOW, rows=2, meter="tokens")
    assert [row.name for row in by_tokens.rows] == ["probe/k0", "probe/k1"]


def test_more_than_a_report_may_read_is_cut_off_and_said(
    executions: list[Execution], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MOST_ATTEMPTS", 3)
    for hours in range(1, 6):
        record(executions[0], NOW - timedelta(hours=hours), tokens=1)
    report = costs("flow", NOW)
    assert report.total.attempts == 3
    assert report.cut_off_before == NOW - timedelta(hours=4) + timedelta(microseconds=1)
    assert next(report.notes()).startswith("Only what ended since 2026-11-28 08:00:00 UTC: ")
    assert costs("flow", NOW, since=NOW - timedelta(hours=3)).cut_off_before is None


def test_a_report_takes_two_statements_and_two_more_for_names(
    executions: list[Execution], django_assert_num_queries: Any
) -> None:
    some_attempts(executions, seed=1)
    for by, statements in {"limit": 2, "day": 2, "batch": 3, "execution": 3}.items():
        with django_assert_num_queries(statements):
            costs(by, NOW)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"by": "colour"}, "costs are not added up by 'colour'; there are: tenant, "),
        ({"until": NOW - timedelta(days=9), "since": NOW}, "it begins 2026-11-28 12:00 and ends 2026-11-19"),
        ({"zone": "Mars"}, "time zone 'Mars' is not known"),
        ({"meter": "coins"}, "no meter is called 'coins'; there are: bytes, "),
    ],
)
def test_what_cannot_be_reported_is_refused(given: dict[str, Any], error: str) -> None:
    with pytest.raises(BadInput, match=error):
        costs(**{"by": "tenant", "now": NOW, **given})


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2h", NOW - timedelta(hours=2)), (" 30 min", NOW - timedelta(minutes=30)),
        ("7d", NOW - timedelta(days=7)), ("2026-11-28", datetime(2026, 11, 28, tzinfo=UTC)),
        ("2026-11-28 06:00+01:00", datetime(2026, 11, 28, 5, tzinfo=UTC)),
        ("1d12h", NOW - timedelta(hours=36)), ("now", NOW), ("Yesterday", datetime(2026, 11, 27, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_times_are_written_as_how_long_ago_or_in_full(text: str, at: datetime) -> None:
    assert moment(text, NOW) == at


@pytest.mark.parametrize("text", ["", "2", "last week", "0001-01-01", "9999-12-31", "-2h", "999999w"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"write 2026-11-28 06:00 \(UTC"):
        moment(text, NOW)


def test_the_command_shows_tables_of_decimal_numbers_whole_numbers_in_json_and_csv(
    executions: list[Execution],
) -> None:
    ended = Attempt(ended_at=datetime.now(UTC) - timedelta(minutes=5)).ended_at
    record(executions[0], ended, "tenant:acme", requests=2, tokens=1_500, usd=250_000)
    record(executions[0], ended, "tenant:=cmd", usd=3_100)
    record(executions[1], ended, tokens=1)
    output = queue("costs", "--by", "tenant", "--since", "2h").out
    lines = [line.split() for line in output.splitlines()[1:]]
    assert lines == [
        ["tenant", "attempts", "usd", "tokens", "requests"],
        ["acme", "1", "0.25", "1,500", "2"],
        ["=cmd", "1", "0.0031", "0", "0"],
        ["none", "1", "0.00", "1", "0"],
        ["total", "3", "0.2531", "1,501", "2"],
    ]
    (found,) = queue("costs", "--json", "--meter", "usd").records
    assert found["rows"][0] == {"tenant": "acme", "attempts": 1, "used": {"usd": 250_000}}
    assert (found["total"], found["scales"]) == (
        {"attempts": 2, "used": {"usd": 253_100}},
        {"usd": 1_000_000},
    )
    assert (found["left_out"], found["cut_off_before"], found["by"]) == (0, None, "tenant")
    header, first, second, *_ = csv.reader(queue("costs", "--csv").out.splitlines())
    assert (header, first) == (
        ["tenant", "attempts", "usd", "tokens", "requests"],
        ["acme", "1", "0.25", "1500", "2"],
    )
    assert second[0] == "'=cmd", "no formula for a spreadsheet"
    refused = queue("costs", "--since", "last week")
    assert (refused.code, "is not a time" in refused.error) == (64, True)
    assert queue("costs", "--rows", MOST_ROWS + 1).code == 0
