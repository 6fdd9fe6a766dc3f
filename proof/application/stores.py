"""What the `store` of a hostile step does, in the transaction that ends its lease."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from proof.application.raised import Own, Unspeakable, integrity_error, throw
from queuemgr import Done


def _close() -> None:
    from django.db import connection

    connection.close()


def _execute(*statements: str) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _roll_back() -> None:
    from django.db import transaction

    transaction.set_rollback(True)


def _on_commit(function: Callable[[], object]) -> None:
    from django.db import transaction

    transaction.on_commit(function)


def _catch() -> None:
    """An error caught inside the queue's own block, which Django then rolls back."""
    from django.contrib.auth.models import Group
    from django.db import IntegrityError

    Group.objects.get_or_create(name="twice")
    with suppress(IntegrityError):
        Group.objects.create(name="twice")


def _leave_a_block() -> None:
    from django.db import transaction

    transaction.atomic().__enter__()


async def _coroutine() -> None:
    """Never awaited."""


def _generator() -> Iterator[None]:
    yield


def _fork() -> None:
    """The child returns as if it were the store."""
    if child := os.fork():
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def _takes_one(argument: object) -> None:
    """A function that cannot be called without an argument."""


STORES: Mapping[str, Any] = {
    "SystemExit": lambda: throw(SystemExit(2)),
    "KeyboardInterrupt": lambda: throw(KeyboardInterrupt()),
    "Own": lambda: throw(Own("from BaseException")),
    "Unspeakable": lambda: throw(Unspeakable()),
    "IntegrityError": integrity_error,
    "closed connection": _close,
    "broken transaction": lambda: _execute("SELECT * FROM no_such_table"),
    "no function": "text",
    "wrong arguments": _takes_one,
    "rolled back": _roll_back,
    "committed": lambda: _execute("COMMIT"),
    "caught an error": _catch,
    "left a block": _leave_a_block,
    "a coroutine": _coroutine,
    "a generator": _generator,
    "forked": _fork,
    "raised after its commit": lambda: _on_commit(lambda: throw(Own("after the commit"))),
    "left a block after its commit": lambda: _on_commit(_leave_a_block),
}


def _returning(store: Any) -> Callable[[], Done]:
    return lambda: Done(store=store)


MISDEEDS: Mapping[str, Callable[[], Any]] = {name: _returning(store) for name, store in STORES.items()}
