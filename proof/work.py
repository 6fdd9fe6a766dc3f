"""The work of a run: probes of every phase, priority, key and cost, sometimes a paper, and hostile code where
a fault asks for it.

An enqueue is repeated until it is acknowledged, which may take many attempts while the database is down;
only then are its keys recorded.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any, NamedTuple

from proof import metered, reading
from proof.fleet import Fleet
from proof.paper_server import PaperServer
from proof.periodic import PERIODIC
from proof.plan import ALL_OPEN, BY_HAND, CAPPED, LIMIT_VALUES, MOST_WAITING, RATED, PlannedEdit
from proof.reading import HOSTILE
from proof.records import Edit, Refusal
from proof.shared_keys import SharedKeys
from proof.tables import Unreachable
from proof.ways import ATTEMPTS_OF_KINDS

BACKLOG = {"free": 40, "costly": 15, "tokens": 12, "usd": 8, "bytes": 6, "papers": 3}
"""Executions of each kind kept waiting or running."""

UNDER = {
    "tokens": (
        metered.ROLLING,
        metered.CALENDAR,
        f"{metered.ROLLING} {metered.CALENDAR}",
        "pool:a",
        "pool:b",
    ),
    "usd": ("", "tenant:c", "tenant:d"),
    "bytes": ("",),
}
"""Keys of the work that is made to meet allowances, by what it uses."""

PAUSE = 0.2
CALLS, BATCHES = 0.4, 0.04
"""Share of the pauses after which something unique is called for, and a batch is opened."""


class Put(NamedTuple):
    """Hostile code to be enqueued: how it misbehaves, and its key."""

    way: str
    key: str


class Work:
    """Enqueues and edits limits in its own thread, until stopped."""

    def __init__(self, fleet: Fleet, papers: PaperServer, edits: list[PlannedEdit], seed: int) -> None:
        self._fleet, self._papers, self._planned = fleet, papers, list(edits)
        self._rng, self._batch = Random(f"work {seed}"), 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="work")
        self._began = time.monotonic()
        self._asked: SimpleQueue[Put] = SimpleQueue()
        self.turn = threading.RLock()
        """Held while something is enqueued or edited, and by a fault that must not meet either."""
        self.enqueued: dict[str, float] = {}
        self.refusals: list[Refusal] = []
        self.edits = [_edit(name, field, value, 0, 0) for name, field, value in _all(LIMIT_VALUES)]
        self.shared = SharedKeys("work", seed, fleet.console.do)
        self.problem = ""
        self.traces = fleet.directory / "traces"

    def start(self) -> None:
        self.traces.mkdir()
        self.traces.with_name("marks").mkdir()
        for limit, values in BY_HAND.items():
            self._insist("edit", limit, dict(values))
        for queue in CAPPED:
            self._insist("cap", queue, MOST_WAITING)
        for kind, most in ATTEMPTS_OF_KINDS.items():
            quick = ["--base", "0.5", "--ceiling", "1", "--jitter", "0.5"]
            self._insist("queue", "policy", kind, "--max-attempts", str(most), *quick)
        self._thread.start()

    def stop(self) -> None:
        """Stop enqueueing, pause the schedules, and raise what budgets and caps hold back."""
        self._stopped.set()
        self._thread.join()
        for each in PERIODIC:
            self._insist("queue", "schedule", "pause", each.name, "--reason", "the run is over")
        self.set({**ALL_OPEN, **{name: {"allowances": metered.BATCHES_OPEN} for name in self._of_batches()}})

    def _of_batches(self) -> list[str]:
        """The limits of batches, once the database answers."""
        while True:
            try:
                return reading.limits_of_batches(self._fleet.tables)
            except Unreachable:
                time.sleep(PAUSE)

    def set(self, limits: Mapping[str, Mapping[str, Any]]) -> None:
        """Edit limits."""
        for name, values in limits.items():
            self._edit(PlannedEdit(0, name, values))

    def enqueue_at_once(self, kind: str, limit: str, count: int) -> list[str]:
        """Enqueue so many probes of no duration under a limit; returns their keys."""
        probe = {"count": count, "seconds": 0, "phase": "prep", "limit-key": limit, "priority": "normal"}
        return self._enqueue_alike(kind, probe)

    def ask(self, ways: Sequence[str]) -> None:
        """Have hostile code of these ways enqueued soon."""
        for way in ways:
            self._batch += 1
            self._asked.put(Put(way, f"{way.replace(' ', '-')}.{self._batch}"))

    def rewound(self, to: float, began: float) -> None:
        """Limits have the values they had at that time again, since a time after `began`."""
        latest: dict[tuple[str, str], Edit] = {}
        for edit in self.edits:
            if edit.done <= to:
                latest[edit.limit, edit.field] = edit
        done = time.time()
        self.edits += [replace(edit, began=began, done=done) for edit in latest.values()]

    def _run(self) -> None:
        try:
            while not self._stopped.wait(PAUSE):
                for job in (self._edit_what_is_due, self._put_what_is_asked, self._top_up, self._share):
                    with self.turn:
                        job()
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"
            raise

    def _edit_what_is_due(self) -> None:
        while self._planned and self._planned[0].at <= time.monotonic() - self._began:
            self._edit(self._planned.pop(0))

    def _edit(self, planned: PlannedEdit) -> None:
        began = time.time()
        self._insist("edit", planned.limit, dict(planned.values))
        done = time.time()
        for field, value in planned.values.items():
            self.edits.append(_edit(planned.limit, field, value, began, done))

    def _put_what_is_asked(self) -> None:
        while not self._asked.empty():
            put = self._asked.get()
            payload = {
                "way": put.way,
                "mark": str(self.traces.with_name("marks") / put.key),
                "trace": str(self.traces / f"{HOSTILE}{put.key}.jsonl"),
            }
            if self._insist("put", "hostile", put.key, payload):
                self.enqueued[f"hostile/{put.key}"] = time.time()

    def _share(self) -> None:
        """Ask for what may be there already; now and then for a batch."""
        if self._rng.random() < CALLS:
            self.shared.call()
        if self._rng.random() < BATCHES:
            self.shared.open()

    def _top_up(self) -> None:
        try:
            unfinished = self._unfinished()
        except Unreachable:
            return
        for kind, most in BACKLOG.items():
            if unfinished.get(kind, 0) < most:
                self._enqueue_paper() if kind == "papers" else self._enqueue_probes(kind)

    def _unfinished(self) -> dict[str, int]:
        named = " ".join(f"WHEN key LIKE '{kind}-%' THEN '{kind}'" for kind in BACKLOG)
        rows = self._fleet.tables.rows(
            f"SELECT CASE WHEN flow = 'papers' THEN 'papers' {named} ELSE 'free' END AS kind, COUNT(*) AS n "
            "FROM queuemgr_execution WHERE flow IN ('papers', 'probe') "
            "AND state IN ('waiting', 'leased', 'running') GROUP BY 1"
        )
        return {row["kind"]: row["n"] for row in rows}

    def _enqueue_probes(self, kind: str) -> None:
        """Several alike; or two, of which the younger has low priority and must let the other start first."""
        alike = {
            "count": self._rng.randint(2, 8),
            "seconds": round(self._rng.uniform(0.2, 1.6), 2),
            "phase": "expensive" if kind == "bytes" else self._rng.choice(("prep", "expensive", "wrap")),
            "limit-key": self._key(kind),
            "requests": self._rng.randint(1, 3) if kind == "costly" else 0,
            **metered.amounts(self._rng, kind if kind in metered.AMOUNTS else "tokens"),
        }
        for priority in self._rng.choice((("high",), ("normal",), ("low",), ("high", "low"))):
            self._enqueue_alike(kind, {**alike, "priority": priority})

    def _enqueue_alike(self, kind: str, options: dict[str, Any]) -> list[str]:
        """Returns the keys that were acknowledged: all or none."""
        self._batch += 1
        prefix = f"{kind}-{self._batch}"
        named = {**options, "key-prefix": prefix, "trace": self.traces / f"{prefix}.jsonl"}
        arguments = [f"--{name}={value}" for name, value in named.items()]
        if not self._insist("queue", "enqueue", "--flow", "probe", *arguments):
            return []
        keys = [f"probe/{prefix}-{n}" for n in range(options["count"])]
        self.enqueued |= dict.fromkeys(keys, time.time())
        return keys

    def _key(self, kind: str) -> str:
        """None, a host's, one with a rate, and sometimes a tenant's as well; or one with allowances."""
        if kind in UNDER:
            return self._rng.choice(UNDER[kind])
        hosts = [f"host:{self._papers.address}:{port}" for port in self._papers.ports]
        host = self._rng.choice(["", "", "host:example.org:443", RATED, *hosts])
        return f"{host} {self._rng.choice(['', '', 'tenant:a', 'tenant:b'])}".strip()

    def _enqueue_paper(self) -> None:
        self._batch += 1
        url = self._papers.url(self._batch)
        if self._insist("queue", "enqueue", url):
            self.enqueued[url] = time.time()

    def _insist(self, *what: Any) -> bool:
        """Repeat until it succeeds, or until stopped if it need not."""
        began = time.time()
        while True:
            succeeded, output = self._fleet.console.do(*what)
            if succeeded:
                return True
            self._note(what, output)
            self._refused(began, output)
            if self._stopped.is_set() and what[0] != "edit" and "pause" not in what:
                return False
            time.sleep(PAUSE)

    def _refused(self, began: float, words: str) -> None:
        if self.refusals and self.refusals[-1].began == began:
            self.refusals.pop()
        self.refusals.append(Refusal(began, time.time(), words))

    def _note(self, what: Any, output: str) -> None:
        with Path(self._fleet.directory / "refused.log").open("a") as log:
            log.write(json.dumps([time.time(), what, output], default=str) + "\n")


def _all(limits: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, Any]]:
    return [(name, f, value) for name, values in limits.items() for f, value in values.items()]


def _edit(limit: str, field: str, value: Any, began: float, done: float) -> Edit:
    return Edit(limit, field, value, began, done)
