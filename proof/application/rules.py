"""The rules of the hostile flow's second step, each of which misbehaves for the ways named after it:
`key raises`, `cost is text`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, cast


class RuleError(BaseException):
    """An exception that no `except Exception` catches."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def _raise(error: BaseException) -> Any:
    raise error


RETURNED: Mapping[str, Callable[[], Any]] = {
    "raises": lambda: _raise(KeyError("host")),
    "raises a BaseException": lambda: _raise(RuleError("a rule")),
    "exits": lambda: _raise(SystemExit(2)),
    "raises what cannot be said": lambda: _raise(Unspeakable()),
    "has a blank": lambda: "host:a b",
    "is too long": lambda: "host:" + "x" * 700,
    "has a NUL": lambda: "host:a\x00b",
    "is bytes": lambda: b"host:a",
    "is a number": lambda: 42,
    "is None": lambda: None,
    "is text": lambda: "three",
    "is negative": lambda: -5,
    "is huge": lambda: 2**70,
    "is not a number": lambda: float("nan"),
    "is a list": lambda: ["cpu"],
    "has text": lambda: {"cpu": "two"},
    "has a huge number": lambda: {"cpu": 2**70},
    "is a coroutine": lambda: _coroutine(),
}


async def _coroutine() -> str:
    return ""


def _leave_a_block(context: Any) -> None:
    from django.db import transaction

    transaction.atomic().__enter__()


def _begin(context: Any) -> None:
    from django.db import connection

    connection.cursor().execute("BEGIN")


def _turn_autocommit_off(context: Any) -> None:
    from django.db import transaction

    transaction.set_autocommit(False)


def _read(context: Any) -> None:
    from django.contrib.auth.models import Group

    Group.objects.count()


def _change(context: Any) -> None:
    context["odd"] = {1, 2}
    context.clear()


def _fork(context: Any) -> None:
    """The child returns as if it were the rule."""
    if child := os.fork():
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


DONE_FIRST: Mapping[str, Callable[[Any], None]] = {
    "leaves a block": _leave_a_block,
    "begins": _begin,
    "turns autocommit off": _turn_autocommit_off,
    "reads": _read,
    "changes what it is given": _change,
    "forks": _fork,
}
"""Done by a rule that then returns what is right."""


def _asked(context: Mapping[str, Any], rule: str, otherwise: Any) -> Any:
    """What the way says about this rule, once the first step is done; otherwise what is right."""
    named, _, what = str(context.get("way", "")).partition(" ")
    wrong = named == rule and context.get("acted")
    if wrong and what in DONE_FIRST:
        DONE_FIRST[what](context)
        return otherwise
    return RETURNED[what]() if wrong else otherwise


def key(context: Mapping[str, Any]) -> str | Iterable[str]:
    return cast(str, _asked(context, "key", ""))


def cost(context: Mapping[str, Any]) -> int:
    return cast(int, _asked(context, "cost", 0))


def weight(context: Mapping[str, Any]) -> int:
    return cast(int, _asked(context, "weight", 1))


def resources(context: Mapping[str, Any]) -> Mapping[str, int]:
    return cast(Mapping[str, int], _asked(context, "resources", {}))


def needed(context: Mapping[str, Any]) -> bool:
    return cast(bool, _asked(context, "needed", True))
