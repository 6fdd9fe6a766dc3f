"""One run of the proof: a fleet, its work, the faults of a plan, a quiet period, and what was recorded."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from proof import calm, leftovers, machine, plan, reading
from proof.application.switches import CALLBACK_LOG
from proof.faults import FAULTS
from proof.faults.fault import Scene
from proof.fleet import Fleet, Pooling
from proof.hosts import OPERATOR
from proof.kinds import KINDS, fitting, left_out
from proof.operators import Operator
from proof.paper_server import PaperServer
from proof.plan import PlannedFault
from proof.records import Fault, History
from proof.tables import Unreachable
from proof.work import Work

TICK = 0.1
DRAIN_SECONDS = 300.0
"""Seconds the remaining work may take after the faults; what is not done by then counts as lost."""

STALLED_SECONDS = 90.0
"""Seconds without any execution finished after which waiting for the rest is of no use."""

PAPER = Path(__file__).resolve().parent.parent / "samples" / "author-year.pdf"


MODES = ("transaction", "session")


@dataclass(frozen=True)
class RunOptions:
    """The options of a run. `faults` are the kinds to be drawn (none: all that are to be survived)."""

    seed: int
    minutes: float
    database: str
    keep: Path | None = None
    faults: Sequence[str] = ()
    one_host: bool = False
    pooler: str = ""
    say: Callable[[str], None] = print


def run(options: RunOptions) -> History:
    """Run from an empty directory until no process is left; returns everything recorded."""
    for name in leftovers.remove_stale():
        options.say(f"removed what an earlier run left: {name}")
    directory = leftovers.new_directory()
    fleet = Fleet(directory, options.database, abilities(options), pooling(options))
    papers = PaperServer(PAPER, directory / "requests.jsonl", options.seed, fleet.hosts.address(OPERATOR))
    try:
        fleet.open()
        for sentence in left_out(options.database, fleet.able):
            options.say(sentence)
        seen = _Run(options, fleet, papers).seen()
        (directory / "history.json").write_text(json.dumps(asdict(seen)))
        return seen
    finally:
        _put_away(directory, options.keep and options.keep / f"{options.database}-{options.seed}")
        left = fleet.close()
        papers.close()
        if left:
            options.say(f"ended what was left running: {', '.join(left)}")


def abilities(options: RunOptions) -> set[str]:
    """What this machine permits of what kinds of faults may need."""
    many = options.database == "postgres" and not options.one_host and not options.pooler
    able = {
        "boxes": machine.may_box(),
        "hosts": many and machine.may_have_hosts(),
        "mounts": machine.may_mount(),
        "clock": machine.may_step_clocks(),
        "pooler": options.database == "postgres" and machine.pooler() is not None,
    }
    return {name for name, there in able.items() if there}


def pooling(options: RunOptions) -> Pooling:
    """Everyone goes through PgBouncer in the mode asked for, otherwise one worker, in a mode by the seed."""
    return Pooling(options.pooler or MODES[options.seed % 2], everyone=bool(options.pooler))


def _put_away(directory: Path, keep: Path | None) -> None:
    """Copy the logs and traces of a run there, replacing those of an earlier run with the same name."""
    if keep is not None:
        shutil.rmtree(keep, ignore_errors=True)
        for file in [*directory.glob("**/*.log"), *directory.glob("*.json*"), directory / "traces"]:
            if file.exists():
                keep.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if file.is_dir() else shutil.copy)(file, keep / file.name)


def recorded(planned: PlannedFault, began: float, ended: float) -> Fault:
    """A fault as the checker judges it."""
    kind = next(kind for kind in KINDS if kind.name == planned.kind)
    leases = kind.whose_leases(planned.target)
    return Fault(planned.kind, planned.target, began, ended, kind.bound, leases, kind.messages, kind.stops)


class _Run:
    """The faults of the plan, each begun and ended at its time, while the work continues."""

    def __init__(self, options: RunOptions, fleet: Fleet, papers: PaperServer) -> None:
        self._options, self._fleet = options, fleet
        self._seconds = options.minutes * 60
        self._work = Work(fleet, papers, plan.edits(options.seed, self._seconds), options.seed)
        self._operator = Operator(fleet, options.seed)
        self._scene = Scene(fleet, self._work)
        kinds = fitting(options.database, fleet.able, options.faults)
        self._to_begin = plan.faults(options.seed, self._seconds, kinds)
        self._to_end: list[tuple[float, Callable[[], None]]] = []
        self._done: list[Fault] = []
        self._calm = calm.CalmStretch()

    def seen(self) -> History:
        self._anchor = time.time() - time.monotonic()
        self._work.start()
        self._operator.start()
        try:
            self._do_faults()
        finally:
            self._operator.stop()
            self._work.stop()
        self._wait_until_drained()
        self._stay_calm()
        return self._history()

    def _stay_calm(self) -> None:
        """Work under rates of its own, when nothing else is left and no fault has an effect any more."""
        while time.time() < max((fault.over for fault in self._done), default=0.0):
            self._fleet.keep_up()
            time.sleep(TICK)
        if self._left() == 0:
            self._calm = calm.stretch(self._fleet, self._work, self._wait_until_drained)

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
        fault.begin(self._scene, planned)

        def end() -> None:
            fault.end(self._scene, planned)
            self._done.append(recorded(planned, began, time.time()))

        self._to_end.append((now + planned.lasts, end))

    def _end_due(self, now: float) -> None:
        due = [item for item in self._to_end if item[0] <= now]
        self._to_end = [item for item in self._to_end if item[0] > now]
        for _, end in due:
            end()

    def _wait_until_drained(self) -> None:
        began = changed = time.monotonic()
        left = None
        while left != 0 and time.monotonic() < min(began + DRAIN_SECONDS, changed + STALLED_SECONDS):
            self._fleet.keep_up()
            time.sleep(0.5)
            if (now_left := self._left()) != left:
                left, changed = now_left, time.monotonic()

    def _left(self) -> int | None:
        """How many executions are not finished; None while the database is away."""
        unfinished = "SELECT COUNT(*) AS n FROM queuemgr_execution WHERE finished_at IS NULL"
        try:
            return int(self._fleet.tables.rows(unfinished)[0]["n"])
        except Unreachable:
            return None

    def _history(self) -> History:
        tables, directory = self._fleet.tables, self._fleet.directory
        keys = reading.paper_keys(tables)
        return History(
            enqueued={keys.get(item, item): at for item, at in self._work.enqueued.items()},
            executions=reading.executions(tables, self._fleet.clock.real),
            attempts=reading.attempts(tables, self._fleet.clock.real),
            runs=reading.runs(self._work.traces, self._anchor),
            requests=reading.requests(directory / "requests.jsonl", keys),
            edits=[*self._work.edits, *reading.of_batches(tables)],
            rates=plan.RATES,
            faults=self._done,
            usage=reading.usage(tables),
            periods=reading.periods(tables),
            refilled=reading.refilled(tables),
            orders=self._operator.orders,
            refusals=self._work.refusals,
            rewinds=self._scene.rewinds,
            steps=[step.at for step in self._fleet.clock.steps],
            callbacks=reading.callbacks(directory / CALLBACK_LOG, self._anchor),
            backlogs=self._calm.backlogs,
            overloads=self._calm.overloads,
            locks_lost=self._scene.locks_lost,
            scheduled=reading.scheduled(tables, self._fleet.clock.real),
            calls=[*self._work.shared.calls, *self._operator.shared.calls],
            opened=[*self._work.shared.batches, *self._operator.shared.batches],
            batches=reading.batches(tables, self._fleet.clock.real),
            leases_left=reading.leases_left(tables),
        )
