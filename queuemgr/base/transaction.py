"""Transactions of the queue's database; the functions are those of `django.db.transaction`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from django.db import transaction

from queuemgr.base.queue_database import alias, get_connection

__all__ = ["atomic", "get_connection", "of", "on_commit", "set_rollback"]

Function = TypeVar("Function", bound=Callable[..., Any])


class _Atomic(transaction.Atomic):
    """A block on the queue's database: which that is, is asked when it is entered, not when a function is
    decorated."""

    @property
    def using(self) -> str:
        return alias()

    @using.setter
    def using(self, ignored: str | None) -> None: ...


@overload
def atomic(function: Function, /) -> Function: ...
@overload
def atomic(*, savepoint: bool = True, durable: bool = False) -> transaction.Atomic: ...
def atomic(function: Any = None, /, *, savepoint: bool = True, durable: bool = False) -> Any:
    """As `django.db.transaction.atomic`: a decorator or a block."""
    block = _Atomic(None, savepoint, durable)
    return block if function is None else block(function)


def of(alias: str) -> transaction.Atomic:
    """A block on another database of the project, such as that of its accounts."""
    return transaction.atomic(using=alias)


def on_commit(act: Callable[[], object], robust: bool = False) -> None:
    """Call this once the transaction around the call has committed; now, if there is none."""
    transaction.on_commit(act, using=alias(), robust=robust)


def set_rollback(rollback: bool) -> None:
    """Have the transaction around the call rolled back, or not, when its block ends."""
    transaction.set_rollback(rollback, using=alias())
