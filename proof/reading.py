"""Converts the fleet's tables, the probes' traces and the paper server's log into the records of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from proof.records import Attempt, Execution, Request, Run, Usage
from proof.tables import Row, Tables, seconds

PRIORITIES = {0: "high", 1: "normal", 2: "low"}


def executions(tables: Tables) -> list[Execution]:
    rows = tables.rows("SELECT * FROM queuemgr_execution ORDER BY id")
    return [
        Execution(
            key=f"{row['flow']}/{row['key']}",
            state=row["state"],
            created=seconds(row["created_at"]),
            finished=seconds(row["finished_at"]) if row["finished_at"] else None,
            error=row["error_kind"],
        )
        for row in rows
    ]


def attempts(tables: Tables) -> list[Attempt]:
    rows = tables.rows(
        "SELECT a.*, e.flow, e.key FROM queuemgr_attempt a "
        "JOIN queuemgr_execution e ON e.id = a.execution_id ORDER BY a.id"
    )
    return [_attempt(row) for row in rows]


def _attempt(row: Row) -> Attempt:
    keys = row["limit_keys"] if "limit_keys" in row else row["limit_key"]
    return Attempt(
        lease=str(row["lease_id"]).replace("-", ""),
        key=f"{row['flow']}/{row['key']}",
        phase=row["phase"],
        step=row["step"],
        priority=PRIORITIES[row["priority"]],
        limits=tuple(keys.split()),
        worker=row["worker"],
        leased=seconds(row["leased_at"]),
        started=seconds(row["started_at"]),
        ended=seconds(row["ended_at"]),
        outcome=row["outcome"],
        cost=row["cost"],
        error=row["error_kind"],
    )


def usage(tables: Tables) -> list[Usage]:
    rows = tables.rows("SELECT * FROM queuemgr_dailyusage")
    return [
        Usage(str(row["day"]), row.get("limit_name") or f"phase:{row['phase']}", row["spent"]) for row in rows
    ]


def leases_left(tables: Tables) -> int:
    return int(tables.rows("SELECT COUNT(*) AS n FROM queuemgr_lease")[0]["n"])


def paper_keys(tables: Tables) -> dict[str, str]:
    """The execution key of each paper, by its URL as it was enqueued."""
    rows = tables.rows("SELECT source, key FROM pipeline_document")
    return {row["source"]: f"papers/{row['key']}" for row in rows}


def runs(traces: Path, wall_minus_monotonic: float) -> list[Run]:
    """The runs of probes; an end is matched with its start by lease and process."""
    lines = [json.loads(line) for file in sorted(traces.iterdir()) for line in _lines(file)]
    ends = {_who(line): line for line in lines if line["event"] == "end"}
    return [
        Run(
            lease=line["lease"].replace("-", ""),
            key=f"probe/{line['key']}",
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
    return [Request(keys[line["url"]], line["at"], ends.get(line["id"])) for line in starts]


def _lines(file: Path) -> Iterator[str]:
    return iter(file.read_text().splitlines())


def _who(line: dict[str, Any]) -> tuple[str, str]:
    return line["lease"], line["worker"]


def _at(line: dict[str, Any], wall_minus_monotonic: float) -> float:
    return float(line["monotonic_ns"]) / 1e9 + wall_minus_monotonic
