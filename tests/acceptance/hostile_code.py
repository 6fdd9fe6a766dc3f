"""What the code of a hostile application does, and how each case must be recorded. It registers nothing."""

from __future__ import annotations

import asyncio
import locale
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NoReturn

from django.db import OperationalError, connection, transaction

from queuemgr import Done, Skipped, Snoozed, StepFailed, Work
from queuemgr.flows.outcomes import Failed, Lost
from tests.acceptance import hostile_stores
from tests.acceptance.hostile_exceptions import HOSTILE_EXCEPTIONS
from tests.acceptance.hostile_process import BREAKS_LOGGING, CHANGES_ITS_PROCESS, DAMAGES

SLEEPS = float(os.environ.get("HOSTILE_SLEEPS", "1.5"))
"""Seconds."""

DONE, UNEXPECTED, LOST = "done", "unexpected", "lost"


class Unutterable(Exception):
    def __str__(self) -> str:
        raise SystemExit("no words")


class OfItsOwn(BaseException):
    """Neither an Exception nor one of Python's own."""


class Poisoned(Mapping[str, Any]):
    """A mapping that raises when it is read."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise SystemExit(3)

    def __len__(self) -> int:
        return 1


def _raise(error: BaseException) -> Callable[[], NoReturn]:
    def act() -> NoReturn:
        raise error

    return act


RAISES: Mapping[str, BaseException] = {
    "ValueError": ValueError("bad"),
    "SystemExit": SystemExit(),
    "SystemExit-0": SystemExit(0),
    "SystemExit-text": SystemExit("usage: …"),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "GeneratorExit": GeneratorExit(),
    "CancelledError": asyncio.CancelledError(),
    "OfItsOwn": OfItsOwn("mine"),
    "Unutterable": Unutterable(),
    "StopIteration": StopIteration(),
    "MemoryError": MemoryError(),
    "huge": ValueError("x" * 5_000_000),
    "surrogate": ValueError("half \ud83d and \x00"),
    "group": BaseExceptionGroup("several", [SystemExit(1), ValueError("one")]),
}


def _fork(end: Callable[[], object]) -> Callable[[], None]:
    """Fork; the child continues as if it were the step, and must not act as the worker."""

    def act() -> None:
        child = os.fork()
        if child == 0:
            end()
            return
        os.waitpid(child, 0)

    return act


def _leave_a_transaction_open() -> None:
    transaction.atomic().__enter__()
    connection.cursor().execute("SELECT 1")


def _begin_by_hand() -> None:
    connection.cursor().execute("BEGIN")


def _turn_autocommit_off() -> None:
    transaction.set_autocommit(False)
    connection.cursor().execute("CREATE TEMPORARY TABLE of_mine (id integer)")
    connection.cursor().execute("INSERT INTO of_mine VALUES (1)")


def _enter_a_block() -> None:
    transaction.atomic().__enter__()


def _statement(sql: str) -> Callable[[], None]:
    def act() -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    return act


def _disable_logging() -> None:
    logging.disable(logging.CRITICAL)


def _change_locale_and_zone() -> None:
    with suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "C.UTF-8")
    os.environ["TZ"] = "Pacific/Kiritimati"
    time.tzset()


def _change_signals() -> None:
    with suppress(ValueError):  # in a thread of a pool nobody may
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0.3)


HARMLESS: Mapping[str, Callable[[], object]] = {
    "sleeps": lambda: time.sleep(SLEEPS),
    "locale": _change_locale_and_zone,
    "signals": _change_signals,
    "logging": _disable_logging,
    "directory": lambda: os.chdir("/"),
    "timeout": lambda: socket.setdefaulttimeout(0.001),
    "fork-returns": _fork(lambda: None),
    "fork-raises": _fork(_raise(ValueError("in the child"))),
    "fork-exits": _fork(lambda: sys.exit(0)),
    "closes": lambda: connection.close(),
    "database-block": lambda: Work.database().__enter__(),
    "stdout": lambda: (
        sys.stdout.close() if hasattr(sys.stdout, "close") and sys.stdout is not sys.__stdout__ else None
    ),
}
"""What it may do and still be done."""

OPEN_TRANSACTIONS: Mapping[str, Callable[[], object]] = {
    "open-transaction": _leave_a_transaction_open,
    "open-begin": _begin_by_hand,
    "open-autocommit": _turn_autocommit_off,
}
"""What a step may leave open: its writes are lost, so it has not done its work."""

BREAKS_A_STORE: Mapping[str, Callable[[], object]] = {
    "closes": lambda: connection.close(),
    "closes-driver": lambda: connection.connection.close(),
    "commits": _statement("COMMIT"),
    "block-never-left": _enter_a_block,
    "rolls-back": _statement("ROLLBACK"),
    "bad-sql": _statement("SELECT nothing FROM nowhere"),
    "away": _raise(OperationalError("server closed the connection unexpectedly")),
    "StepFailed": _raise(StepFailed("unexpected", "said so")),
}

RETURNS: Mapping[str, Callable[[], object]] = {
    "datetime": lambda: Done(context={"when": datetime.now(UTC)}),
    "set": lambda: Done(context={"some": {1, 2}}),
    "bytes": lambda: Done(context={"raw": b"bytes"}),
    "nan": lambda: Done(context={"number": float("nan")}),
    "decimal": lambda: Done(context={"price": Decimal("1.10")}),
    "surrogate": lambda: Done(context={"text": "half \ud83d"}),
    "nul": lambda: Done(context={"text": "a\x00b"}),
    "nul-name": lambda: Done(context={"a\x00b": 1}),
    "huge-context": lambda: Done(context={"text": "x" * 3_000_000}),
    "circular": lambda: Done(context=_circular()),
    "poisoned": lambda: Done(context=Poisoned()),
    "list-context": lambda: Done(context=[1]),  # type: ignore[arg-type]
    "cost-huge": lambda: Done(cost=2**70),
    "cost-negative": lambda: Done(cost=-5),
    "cost-text": lambda: Done(cost="5"),  # type: ignore[arg-type]
    "store-text": lambda: Done(store="store"),  # type: ignore[arg-type]
    "snoozed-inf": lambda: Snoozed(float("inf"), "for ever"),
    "snoozed-nan": lambda: Snoozed(float("nan"), "never"),
    "snoozed-text": lambda: Snoozed("soon", "soon"),  # type: ignore[arg-type]
    "skipped-none": lambda: Skipped(None),  # type: ignore[arg-type]
    "failed-bytes": lambda: Failed("network", b"bytes"),  # type: ignore[arg-type]
    "failed-kind": lambda: Failed(7, "seven"),  # type: ignore[arg-type]
    "failed-long-kind": lambda: Failed("k" * 200, "long"),
    "lost": Lost,
    "text": lambda: "done",
    "true": lambda: True,
    "zero": lambda: 0,
    "class": lambda: Done,
    "generator": lambda: (n for n in range(3)),
}
"""Returned, and no outcome that a row can hold."""

KILLS: Mapping[str, Callable[[], object]] = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(0),
    "abort": lambda: os.abort(),
}
"""Only for children of a pool, whose parent lives on. Each does it once."""


def _circular() -> dict[str, Any]:
    circular: dict[str, Any] = {}
    circular["self"] = circular
    return circular


BAD_RULES: Mapping[str, Mapping[str, Callable[[], object]]] = {
    "key": {
        "blank": lambda: "host:a b",
        "long": lambda: "k" * 300,
        "bytes": lambda: b"host",
        "nul": lambda: "a\x00",
    },
    "cost": {"text": lambda: "many", "huge": lambda: 2**40, "none": lambda: None},
    "weight": {"zero": lambda: 0, "float": lambda: 1.5},
    "resources": {"list": lambda: [1], "negative": lambda: {"cpu": -1}, "name": lambda: {"a b": 1}},
    "needed": {},
}
"""What the rules of a second step return, apart from what they raise."""


TOO_LARGE = ("huge-context",)
"""Of `RETURNS`: another attempt would return as much."""


@dataclass(frozen=True)
class Case:
    """Where the code runs, what it does, and how its attempt and its execution must end."""

    where: str
    what: str
    outcome: str
    error_kind: str = ""

    @property
    def key(self) -> str:
        return f"{self.where}.{self.what}"


def cases(*, kills: bool) -> list[Case]:
    """Every case; those that end the process only where a parent survives."""
    found = [Case("step", what, "retried", UNEXPECTED) for what in RAISES]
    found += [Case("store", what, "retried", UNEXPECTED) for what in {**RAISES, **BREAKS_A_STORE}]
    found += [Case("step", what, DONE) for what in HARMLESS]
    found += [
        Case("store", what, DONE) for what in HARMLESS if what not in BREAKS_A_STORE and "fork" not in what
    ]
    found += [Case("step", what, "retried", UNEXPECTED) for what in OPEN_TRANSACTIONS]
    found += [Case("returns", what, "retried", UNEXPECTED) for what in RETURNS if what not in TOO_LARGE]
    found += [Case("returns", what, "failed", "too_large") for what in TOO_LARGE]
    for rule, bad in BAD_RULES.items():
        raised = ("ValueError", "SystemExit", "OfItsOwn", "Unutterable")
        found += [Case(f"rule-{rule}", what, DONE, "configuration") for what in (*raised, *bad)]
    found += [
        Case("rule-key", what, DONE, "configuration") for what in HOSTILE_EXCEPTIONS if what.endswith("exits")
    ]
    for where in ("step", "store"):
        found += [
            Case(where, what, "retried", UNEXPECTED)
            for what in HOSTILE_EXCEPTIONS
            if where == "step" or what.endswith("exits")
        ]
        found += [Case(where, what, "retried", UNEXPECTED) for what in BREAKS_LOGGING]
        found += [Case(where, what, DONE) for what in CHANGES_ITS_PROCESS]
    found += _cases_of_transactions()
    found += [Case("step", what, LOST) for what in KILLS] if kills else []
    return found


def damages() -> list[Case]:
    """What ends its process: each runs with a worker of its own."""
    return [Case("step", what, LOST) for what in DAMAGES]


def _cases_of_transactions() -> list[Case]:
    found = [Case("store", what, "retried", UNEXPECTED) for what in hostile_stores.LOSES_ITS_WRITES]
    found += [Case("store", what, DONE) for what in hostile_stores.FORKS]
    found += [Case("after-commit", what, DONE) for what in hostile_stores.AFTER_COMMIT]
    for rule in ("key", "needed"):  # the others are called in the same place
        refused = {**hostile_stores.RULE_VALUES, **hostile_stores.RULES_LEAVE_OPEN}
        found += [Case(f"rule-{rule}", what, DONE, "configuration") for what in refused]
        found += [Case(f"rule-{rule}", what, DONE) for what in hostile_stores.RULES_MAY]
    found += [Case("rule-needed", what, DONE, "configuration") for what in hostile_stores.ONLY_NEEDED]
    return found


def act(what: str) -> object:
    if what in RAISES:
        raise RAISES[what]
    if what in HOSTILE_EXCEPTIONS:
        raise HOSTILE_EXCEPTIONS[what]
    actions = {
        **HARMLESS,
        **BREAKS_A_STORE,
        **KILLS,
        **OPEN_TRANSACTIONS,
        **CHANGES_ITS_PROCESS,
        **DAMAGES,
        **BREAKS_LOGGING,
    }
    return actions[what]()
