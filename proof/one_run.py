"""One run of the proof: a fleet, its work, the faults of a plan, a quiet period, and what was recorded."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from proof import plan, reading
from proof.faults import FAULTS
from proof.fleet import Fleet
from proof.paper_server import PaperServer
from proof.plan import PlannedFault
from proof.records import Fault, History
from proof.tables import Unreachable
from proof.work import Work

TICK = 0.1
DRAIN_SECONDS = 300.0
"""Seconds the remaining work may take after the faults; what is not done by then counts as lost."""

PAPER = Path(__file__).resolve().parent.parent / "samples" / "author-year.pdf"


@dataclass(frozen=True)
class RunOptions:
    """The options of a run."""

    seed: int
    minutes: float
    database: str
    keep: Path | None = None
    say: Callable[[str], None] = print


def run(options: RunOptions) -> History:
    """Run from an empty directory until no process is left; returns everything recorded."""
    directory = Path(tempfile.mkdtemp(prefix="sluice-proof-"))
    directory.chmod(0o755)
    fleet = Fleet(directory, options.database)
    papers = PaperServer(PAPER, directory / "requests.jsonl", options.seed)
    try:
        fleet.open()
        seen = _Run(options, fleet, papers).seen()
        (directory / "history.json").write_text(json.dumps(asdict(seen)))
        return seen
    finally:
        left = fleet.close()
        papers.close()
        _put_away(directory, options.keep and options.keep / f"{options.database}-{options.seed}")
        if left:
            options.say(f"ended what was left running: {', '.join(left)}")


def _put_away(directory: Path, keep: Path | None) -> None:
    """Copy the logs and traces of a run there, replacing those of an earlier run with the same name."""
    if keep is not None:
        shutil.rmtree(keep, ignore_errors=True)
        for file in [*directory.glob("*.log"), *directory.glob("*.json*"), directory / "traces"]:
            if file.exists():
                keep.mkdir(parents=True, exist_ok=True)
                shutil.move(str(file), keep / file.name)
    shutil.rmtree(directory, ignore_errors=True)


class _Run:
    """The faults of the plan, each begun and ended at its time, while the work continues."""

    def __init__(self, options: RunOptions, fleet: Fleet, papers: PaperServer) -> None:
        self._options, self._fleet = options, fleet
        self._seconds = options.minutes * 60
        self._work = Work(fleet, papers, plan.edits(options.seed, self._seconds), options.seed)
        self._to_begin = plan.faults(options.seed, self._seconds, options.database)
        self._to_end: list[tuple[float, Callable[[], None]]] = []
        self._done: list[Fault] = []

    def seen(self) -> History:
        self._anchor = time.time() - time.monotonic()
        self._work.start()
        try:
            self._do_faults()
        finally:
            self._work.stop()
        self._wait_until_drained()
        return self._history()

    def _do_faults(self) -> None:
        began = time.monotonic()
        while (now := time.monotonic() - began) < self._seconds or self._to_end:
            if self._work.problem:
                raise RuntimeError(f"the stream of work broke: {self._work.problem}")
            self._end_due(now)
            while self._to_begin and self._to_begin[0].at <= now:
                self._begin(self._to_begin.pop(0), now)
            self._fleet.keep_up()
            time.sleep(TICK)

    def _begin(self, planned: PlannedFault, now: float) -> None:
        fault = FAULTS[planned.kind]()
        self._options.say(f"{now:6.1f} s  {planned.kind}: {planned.target}, {planned.lasts:.1f} s")
        began = time.time()
        fault.begin(self._fleet, planned)

        def end() -> None:
            fault.end(self._fleet, planned)
            self._done.append(Fault(planned.kind, planned.target, began, time.time()))

        self._to_end.append((now + planned.lasts, end))

    def _end_due(self, now: float) -> None:
        due = [item for item in self._to_end if item[0] <= now]
        self._to_end = [item for item in self._to_end if item[0] > now]
        for _, end in due:
            end()

    def _wait_until_drained(self) -> None:
        until = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < until and not self._drained():
            self._fleet.keep_up()
            time.sleep(0.5)

    def _drained(self) -> bool:
        unfinished = "SELECT COUNT(*) AS n FROM queuemgr_execution WHERE finished_at IS NULL"
        try:
            left = int(self._fleet.tables.rows(unfinished)[0]["n"])
        except Unreachable:
            return False
        return not left

    def _history(self) -> History:
        tables, directory = self._fleet.tables, self._fleet.directory
        keys = reading.paper_keys(tables)
        return History(
            enqueued=[keys.get(item, item) for item in self._work.enqueued],
            executions=reading.executions(tables),
            attempts=reading.attempts(tables),
            runs=reading.runs(self._work.traces, self._anchor),
            requests=reading.requests(directory / "requests.jsonl", keys),
            edits=self._work.edits,
            rates=plan.RATES,
            faults=self._done,
            usage=reading.usage(tables),
            leases_left=reading.leases_left(tables),
        )
