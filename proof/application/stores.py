"""What the `store` of a hostile step does, in the transaction that ends its lease."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
}


def _returning(store: Any) -> Callable[[], Done]:
    return lambda: Done(store=store)


MISDEEDS: Mapping[str, Callable[[], Any]] = {name: _returning(store) for name, store in STORES.items()}
