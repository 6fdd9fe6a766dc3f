"""Converts the fleet's tables, the probes' traces and the paper server's log into the records of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from proof.metered import OF_BATCHES
from proof.records import (
    Attempt,
    Batch,
    Edit,
    Execution,
    Refilled,
    Request,
    Run,
    ScheduledRun,
    SpentInPeriod,
    Usage,
)
from proof.rules.allowances import parts_of
from proof.tables import Row, Tables, seconds

Real = Callable[[float], float]
"""The real time at which the fleet's clock showed one."""

HOSTILE = "hostile-"
"""How the names of the trace files of hostile code begin: one for each item, as a full disk has room for no
large one."""

PRIORITIES = {0: "high", 1: "normal", 2: "low"}


def executions(tables: Tables, real: Real) -> list[Execution]:
    rows = tables.rows(
        "SELECT e.*, b.name AS batch_name FROM queuemgr_execution e "
        "LEFT JOIN queuemgr_batch b ON b.id = e.batch_id ORDER BY e.id"
    )
    return [
        Execution(
            key=f"{row['flow']}/{row['key']}",
            state=row["state"],
            created=real(seconds(row["created_at"])),
            finished=real(seconds(row["finished_at"])) if row["finished_at"] else None,
            error=row["error_kind"],
            batch=row["batch_name"] or "",
        )
        for row in rows
    ]


def scheduled(tables: Tables, real: Real) -> list[ScheduledRun]:
    rows = tables.rows(
        "SELECT r.*, s.name, e.flow, e.key FROM queuemgr_scheduledrun r "
        "JOIN queuemgr_schedule s ON s.id = r.schedule_id "
        "LEFT JOIN queuemgr_execution e ON e.id = r.execution_id ORDER BY r.id"
    )
    return [
        ScheduledRun(
            schedule=row["name"], due=seconds(row["due_at"]), last=seconds(row["until"] or row["due_at"]),
            decided=real(seconds(row["decided_at"])), outcome=row["outcome"], reason=row["reason"],
            key=f"{row['flow']}/{row['key']}" if row["key"] else "",
            ended=seconds(row["ended_at"]) if row["ended_at"] else None,
        )
        for row in rows
    ]  # fmt: skip


def batches(tables: Tables, real: Real) -> list[Batch]:
    rows = tables.rows(
        "SELECT b.*, p.name AS around FROM queuemgr_batch b LEFT JOIN queuemgr_batch p ON p.id = b.parent_id"
    )
    return [
        Batch(
            row["name"], row["around"] or "",
            real(seconds(row["completed_at"])) if row["completed_at"] else None,
        )
        for row in rows
    ]  # fmt: skip


def attempts(tables: Tables, real: Real) -> list[Attempt]:
    rows = tables.rows(
        "SELECT a.*, e.flow, e.key, e.payload FROM queuemgr_attempt a "
        "JOIN queuemgr_execution e ON e.id = a.execution_id ORDER BY a.id"
    )
    return [_attempt(row, real) for row in rows]


def _attempt(row: Row, real: Real) -> Attempt:
    keys = row["limit_keys"] if "limit_keys" in row else row["limit_key"]

    def ahead(column: str) -> float:
        return seconds(row[column]) - real(seconds(row[column]))

    return Attempt(
        lease=str(row["lease_id"]).replace("-", ""),
        key=f"{row['flow']}/{row['key']}",
        phase=row["phase"],
        step=row["step"],
        priority=PRIORITIES[row["priority"]],
        limits=tuple(keys.split()),
        worker=row["worker"],
        leased=real(seconds(row["leased_at"])),
        started=real(seconds(row["started_at"])),
        ended=real(seconds(row["ended_at"])),
        outcome=row["outcome"],
        cost=row["cost"],
        error=row["error_kind"],
        message=row["error_message"],
        day=datetime.fromtimestamp(seconds(row["leased_at"]), UTC).date().isoformat(),
        used=_used(row.get("uses") or ""),
        reserved=_stated(row["payload"]),
        ahead=(ahead("leased_at"), ahead("started_at"), ahead("ended_at")),
    )


def _used(text: str) -> tuple[tuple[str, int], ...]:
    pairs = (each.partition("=") for each in text.split())
    return tuple((meter, int(amount)) for meter, _, amount in pairs)


def _stated(payload: Any) -> tuple[tuple[str, int], ...]:
    """What a probe was enqueued with."""
    given = json.loads(payload) if isinstance(payload, str) else payload
    uses = given.get("uses") if isinstance(given, dict) else None
    stated = uses if isinstance(uses, dict) else {}
    return tuple((meter, parts_of(meter, Decimal(str(number)))) for meter, number in stated.items())


def limits_of_batches(tables: Tables) -> list[str]:
    rows = tables.rows("SELECT name FROM queuemgr_limit WHERE name LIKE 'batch:%'")
    return [row["name"] for row in rows]


def of_batches(tables: Tables) -> list[Edit]:
    """The allowances that batches were opened with."""
    return [Edit(name, "allowances", OF_BATCHES, 0, 0) for name in limits_of_batches(tables)]


def periods(tables: Tables) -> list[SpentInPeriod]:
    rows = tables.rows("SELECT * FROM queuemgr_allowanceusage")
    return [
        SpentInPeriod(
            row["limit_name"],
            row["allowance"].removesuffix("/calendar"),
            seconds(row["starts_at"]),
            int(row["spent"]),
        )
        for row in rows
    ]


def refilled(tables: Tables) -> list[Refilled]:
    """The clocks of rolling allowances, settled."""
    rows = tables.rows(
        "SELECT name, clock + (SELECT COALESCE(SUM(seconds), 0) FROM queuemgr_allowancesettlement s "
        "WHERE s.name = c.name) AS at FROM queuemgr_allowanceclock c"
    )
    parts = ((row["name"].partition(" "), float(row["at"])) for row in rows)
    return [Refilled(limit, name.removesuffix("/rolling"), at) for (limit, _, name), at in parts]


def usage(tables: Tables) -> list[Usage]:
    rows = tables.rows("SELECT * FROM queuemgr_allowanceusage WHERE allowance = 'requests/day'")
    return [Usage(str(row["starts_at"])[:10], row["limit_name"], row["spent"]) for row in rows]


def leases_left(tables: Tables) -> int:
    return int(tables.rows("SELECT COUNT(*) AS n FROM queuemgr_lease")[0]["n"])


def paper_keys(tables: Tables) -> dict[str, str]:
    """The execution key of each paper, by its URL as it was enqueued."""
    rows = tables.rows("SELECT source, key FROM pipeline_document")
    return {row["source"]: f"papers/{row['key']}" for row in rows}


def runs(traces: Path, wall_minus_monotonic: float) -> list[Run]:
    """The runs of probes; an end is matched with its start by lease and process."""
    lines = [
        {**json.loads(line), "flow": "hostile" if file.stem.startswith(HOSTILE) else "probe"}
        for file in sorted(traces.iterdir())
        for line in _lines(file)
    ]
    ends = {_who(line): line for line in lines if line["event"] == "end"}
    return [
        Run(
            lease=line["lease"].replace("-", ""),
            key=f"{line['flow']}/{line['key']}",
            worker=line["worker"],
            start=_at(line, wall_minus_monotonic),
            end=_at(ends[_who(line)], wall_minus_monotonic) if _who(line) in ends else None,
        )
        for line in lines
        if line["event"] == "start"
    ]


def requests(log: Path, keys: dict[str, str]) -> list[Request]:
    """The requests recorded by the paper server."""
    lines = [json.loads(line) for line in _lines(log)]
    ends = {line["id"]: line["at"] for line in lines if line["event"] == "end"}
    starts: Iterable[dict[str, Any]] = (line for line in lines if line["event"] == "start")
    known = (line for line in starts if line["url"] in keys)
    return [Request(keys[line["url"]], line["at"], ends.get(line["id"])) for line in known]


def callbacks(log: Path, wall_minus_monotonic: float) -> list[float]:
    """When the callback of the patient flow was called."""
    lines = _lines(log) if log.exists() else iter(())
    return [float(line) / 1e9 + wall_minus_monotonic for line in lines]


def _lines(file: Path) -> Iterator[str]:
    return iter(file.read_text().splitlines())


def _who(line: dict[str, Any]) -> tuple[str, str]:
    return line["lease"], line["worker"]


def _at(line: dict[str, Any], wall_minus_monotonic: float) -> float:
    return float(line["monotonic_ns"]) / 1e9 + wall_minus_monotonic
