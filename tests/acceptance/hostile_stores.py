"""What stores, what they have run after their commit, and rules do to the transactions of the queue and to
its process, and results that mean they have not run. `hostile_code` says how each case must end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from django.contrib.auth.models import Group, User
from django.db import IntegrityError, connection, transaction

from queuemgr import Context, Work


def _fork(end: Callable[[], object], *, wait: bool = True) -> Callable[[], object]:
    """Fork; the child continues as if it were the store or the rule."""

    def act() -> object:
        child = os.fork()
        if child == 0:
            return end()
        if wait:
            with suppress(ChildProcessError):  # another case has SIGCHLD ignored
                os.waitpid(child, 0)
        return None

    return act


def _raise(error: BaseException) -> Callable[[], NoReturn]:
    def act() -> NoReturn:
        raise error

    return act


def _catch_inside() -> None:
    """Ordinary code that makes Django roll back the block around it."""
    Group.objects.get_or_create(name="twice")
    with suppress(IntegrityError):
        Group.objects.create(name="twice")


def _catch_without_savepoint() -> None:
    with suppress(ValueError), transaction.atomic(savepoint=False):
        raise ValueError("handled by the application")


async def _coroutine() -> None:
    """Never awaited."""


def _generator() -> Iterator[None]:
    yield


def _refused_at_commit() -> None:
    """A foreign key is checked when the transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO auth_user_groups (user_id, group_id) VALUES (-1, -1)")


def _enter_two_blocks() -> None:
    transaction.atomic().__enter__()
    transaction.atomic(savepoint=False).__enter__()


LOSES_ITS_WRITES: Mapping[str, Callable[[], object]] = {
    "set-rollback": lambda: transaction.set_rollback(True),
    "caught-inside": _catch_inside,
    "caught-without-savepoint": _catch_without_savepoint,
    "refused-at-commit": _refused_at_commit,
    "leaves-a-block-of-the-queue": lambda: transaction.atomic().__exit__(None, None, None),
    "enters-two-blocks": _enter_two_blocks,
    "commits-by-driver": lambda: connection.connection.commit(),
    "coroutine": _coroutine,
    "generator": _generator,
    "map": lambda: map(print, [1]),
    "function": lambda: _catch_inside,
    "bound-method": lambda: User.objects.create,
}
"""By a store that returns: its result must not be recorded as done."""

FORKS: Mapping[str, Callable[[], object]] = {
    "fork-and-return": _fork(lambda: None),
    "fork-and-not-wait": _fork(lambda: None, wait=False),
    "fork-and-raise": _fork(_raise(ValueError("in the child"))),
    "fork-and-exit": _fork(lambda: sys.exit(0)),
}

AFTER_COMMIT: Mapping[str, Callable[[], object]] = {
    "raises": _raise(ValueError("after the commit")),
    "exits": _raise(SystemExit(1)),
    "interrupts": _raise(KeyboardInterrupt()),
    "enters-a-block": lambda: transaction.atomic().__enter__(),
    "begins": lambda: connection.cursor().execute("BEGIN"),
    "turns-autocommit-off": lambda: transaction.set_autocommit(False),
    "closes": lambda: connection.close(),
    "coroutine": _coroutine,
    **FORKS,
}
"""Given to `on_commit` by a store: its result is stored, whatever this does."""

RULE_VALUES: Mapping[str, Callable[[], object]] = {"coroutine": _coroutine}

ONLY_NEEDED: Mapping[str, Callable[[], object]] = {
    "generator": _generator,
    "function": lambda: _raise,
    "map": lambda: map(str, [1]),
}
"""A rule of another name refuses these as no value of its type."""

RULES_LEAVE_OPEN: Mapping[str, Callable[[Any], object]] = {
    "enters-a-block": lambda context: transaction.atomic().__enter__(),
    "enters-and-writes": lambda context: (transaction.atomic().__enter__(), _catch_inside()),
    "begins": lambda context: connection.cursor().execute("BEGIN"),
    "turns-autocommit-off": lambda context: transaction.set_autocommit(False),
}

RULES_MAY: Mapping[str, Callable[[Any], object]] = {
    "changes-its-context": lambda context: (context["nested"].append({1, 2}), context.clear()),
    "reads": lambda context: Group.objects.count(),
    "enters-a-database-block": lambda context: Work.database().__enter__(),
    "closes": lambda context: connection.close(),
    **{name: lambda context, fork=fork: fork() for name, fork in FORKS.items()},  # type: ignore[misc]
}


def store(where: str, what: str) -> object:
    """What the store of a case does."""
    if where == "after-commit":
        transaction.on_commit(AFTER_COMMIT[what])
        return None
    return {**LOSES_ITS_WRITES, **FORKS}[what]()


def rule(what: str, context: Context, otherwise: object) -> object:
    """What the rule of a case returns."""
    if values := {**RULE_VALUES, **ONLY_NEEDED}.get(what):
        return values()
    {**RULES_LEAVE_OPEN, **RULES_MAY}[what](context)
    return otherwise
