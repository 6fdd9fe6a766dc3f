"""Fills the database with a year's work and times every page over it: the child of `bench.pages`.

A thousand papers in every state are created row by row, then copied inside the database a thousand times,
with their attempts, documents, audit entries and minutes.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from bench.child import answer, request
from bench.page_walk import walk

if TYPE_CHECKING:
    from django.db import models

    from queuemgr.models import Execution

ORIGINALS = 1_000
"""Papers created row by row; every other one is a copy of one of them."""

RUNNING = 50
HOSTS = 200
ATTEMPTS_EACH = 3
ENDINGS = ("done",) * 12 + ("failed",) * 3 + ("skipped", "cancelled") + ("waiting",) * 3
"""How many of twenty papers end, or wait, in each way."""

FAILURES = (
    ("timeout", "no answer from host {n} within 30 s"),
    ("http_5xx", "503 from https://host{n}.example/paper/{n}.pdf"),
    ("not_pdf", "not a PDF: begins with '<html lang={n}>'"),
    ("too_large", "{n} MB; at most 200 MB are read"),
    ("unexpected", "KeyError: 'abstract' in answer {n}"),
)
COPIES_AT_A_TIME = 100
SPACE = 1_000_000
"""Difference between the ids of a copy and those of the copy before."""


@dataclass(frozen=True)
class Dialect:
    """The SQL with which a row is copied; `n.n` is the number of the copy."""

    numbers: str
    padded: str
    earlier: str
    uuid: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


DIALECTS = {
    "postgresql": Dialect(
        numbers="SELECT n FROM generate_series({first}, {last}) AS n",
        padded="lpad(n.n::text, 5, '0')",
        earlier="h.{column} - n.n * interval '10 minutes'",
        uuid="gen_random_uuid()",
        before=("SET synchronous_commit = off",),
        after=("SET synchronous_commit = on", "VACUUM ANALYZE", "CHECKPOINT"),
    ),
    "sqlite": Dialect(
        numbers="WITH RECURSIVE s(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM s WHERE n < {last}) "
        "SELECT n FROM s",
        padded="printf('%05d', n.n)",
        earlier="strftime('%Y-%m-%d %H:%M:%f', h.{column}, (n.n * -10) || ' minutes')",
        uuid="lower(hex(randomblob(16)))",
        after=("ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"),
    ),
}


def load(executions: int) -> Any:
    """Create the executions and their related rows; returns how many rows, and how long it took."""
    from django.core.management import call_command

    from bench import played
    from queuemgr.models import Attempt, AuditEntry, Execution
    from queuemgr.scheduling import limit_rows

    began = time.perf_counter()
    call_command("migrate", verbosity=0)
    limit_rows.sync()
    played.catch_messages()
    _make_originals()
    played.hold([f"host:host{n}.example:443" for n in range(RUNNING)])
    for first in range(1, executions // ORIGINALS, COPIES_AT_A_TIME):
        _copy_all(first, min(first + COPIES_AT_A_TIME, executions // ORIGINALS) - 1)
    _settle_down()
    rows = {m.__name__: m._default_manager.count() for m in (Execution, Attempt, AuditEntry)}
    return {"rows": rows, "seconds": time.perf_counter() - began}


def _make_originals() -> None:
    from pipeline.models import Document
    from queuemgr.base.scheduler_lock import database_now
    from queuemgr.models import AuditEntry, Execution

    now, dice = database_now(), random.Random(1)
    rows = [_execution(number, now, dice) for number in range(ORIGINALS)]
    Execution.objects.bulk_create(rows)
    Document.objects.bulk_create(
        Document(key=e.key, kind="arxiv", source=e.key, enqueued=True, title=f"On sluices {e.pk}",
                 year=2020 + e.pk % 6, pages=12, references=30)
        for e in rows
    )  # fmt: skip
    AuditEntry.objects.bulk_create(
        AuditEntry(at=e.created_at, actor="ada", source="admin", action="retry", target=str(e),
               before={"state": "failed"}, after={"state": "waiting"})
        for e in rows if e.state == "failed"
    )  # fmt: skip
    for execution in rows:
        _record_attempts(execution, now, dice)


def _execution(number: int, now: datetime, dice: random.Random) -> Execution:
    from queuemgr.flows.flow import get_flow
    from queuemgr.models import FINAL, Execution
    from queuemgr.scheduling import routes

    state = ENDINGS[number % len(ENDINGS)]
    step_ref = dice.choice(list(get_flow("papers").steps()))
    payload = {"host_key": f"host:host{number % HOSTS}.example:443", "tenant": f"t{number % 9}"}
    kind, message = FAILURES[number % len(FAILURES)] if state == "failed" else ("", "")
    message = message.format(n=number)
    created = now - timedelta(minutes=number % 60)
    route = routes.kind_of(step_ref, number % 3, payload, resumed=False)
    return Execution(
        flow="papers", key=f"arxiv:{number:04}.00000", phase=step_ref.phase.name, step=step_ref.step.name,
        priority=number % 3, state=state, payload=payload, created_at=created, run_after=created,
        attempts_counted_since=created, error_kind=kind, error_message=message,
        error_fingerprint=_fingerprint(kind, step_ref.step.name, message) if kind else "",
        route_id=routes.ids_of([route])[route] if state == "waiting" else None,
        finished_at=created + timedelta(minutes=5) if state in FINAL else None,
    )  # fmt: skip


def _fingerprint(kind: str, step: str, message: str) -> str:
    from queuemgr.lifecycle.error_fingerprint import fingerprint

    return fingerprint(kind, step, message)


def _record_attempts(execution: Execution, now: datetime, dice: random.Random) -> None:
    from uuid import uuid4

    from queuemgr.models import Attempt

    began = execution.created_at
    for _ in range(ATTEMPTS_EACH):
        failed = execution.state == "failed"
        Attempt.objects.create(
            lease_id=uuid4(), execution=execution, phase=execution.phase, step=execution.step,
            priority=execution.priority, limit_keys=execution.payload["host_key"], cost=1,
            worker=f"worker{dice.randrange(8)}@host", due_at=began,
            leased_at=began + timedelta(seconds=dice.random() * 60),
            started_at=began + timedelta(seconds=61),
            ended_at=began + timedelta(seconds=62 + dice.random() * 60),
            outcome="retried" if failed else "done", error_kind=execution.error_kind,
            error_message=execution.error_message,
        )  # fmt: skip


def _copy_all(first: int, last: int) -> None:
    """Create the copies `first` to `last` of the thousand, each ten minutes older than the one before."""
    from pipeline.models import Document
    from queuemgr.models import Attempt, AuditEntry, Execution

    dialect = _dialect()
    originals = "h.key LIKE 'arxiv:%.00000'"
    new_id = {"id": f"h.id + n.n * {SPACE}"}
    new_key = {"key": f"replace(h.key, '.00000', '.' || {dialect.padded})"}
    of_copy = {"execution_id": f"h.execution_id + n.n * {SPACE}", "lease_id": dialect.uuid}
    for model, which, differ in (
        (Execution, originals, {**new_id, **new_key}),
        (Document, originals, {**new_id, **new_key}),
        (Attempt, f"h.execution_id < {SPACE}", of_copy),
        (AuditEntry, f"h.id < {SPACE}", new_id),
    ):
        _copy(model, which, differ, first, last)


def _dialect() -> Dialect:
    from django.db import connection

    return DIALECTS[connection.vendor]


def _copy(model: type[models.Model], which: str, differ: dict[str, str], first: int, last: int) -> None:
    """Copy these rows once per number: times are earlier, and `differ` gives the SQL of other columns that
    differ."""
    from django.db.models import DateTimeField

    dialect, name = _dialect(), model._meta.db_table
    fields = [f for f in model._meta.concrete_fields if not f.primary_key or f.column in differ]
    times = [f.column for f in fields if isinstance(f, DateTimeField)]
    unlike = {column: dialect.earlier.format(column=column) for column in times} | differ
    chosen = ", ".join(unlike.get(f.column, f'h."{f.column}"') for f in fields)
    columns = ", ".join(f'"{f.column}"' for f in fields)
    numbers = dialect.numbers.format(first=first, last=last)
    _say(
        *dialect.before,
        f"INSERT INTO {name} ({columns}) SELECT {chosen} FROM ({numbers}) AS n "
        f"CROSS JOIN {name} h WHERE {which}",
    )


def _say(*statements: str) -> None:
    """Run these statements without parameters: a percent sign in them is literal."""
    from django.db import connection

    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _settle_down() -> None:
    """Do now what a server and its background processes would do by themselves after such a load."""
    from queuemgr.base.scheduler_lock import database_now
    from queuemgr.lifecycle import minute_stats

    while minute_stats.roll_up(database_now()):
        pass
    _say(*_dialect().after)


if __name__ == "__main__":
    answer(request("bench.history", __doc__, do="load", executions=10_000), {"load": load, "walk": walk})
