"""The rules of the hostile flow's second step, each of which misbehaves for the ways named after it:
`key raises`, `cost is text`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
}


def _asked(context: Mapping[str, Any], rule: str, otherwise: Any) -> Any:
    """What the way says about this rule, once the first step is done; otherwise what is right."""
    named, _, what = str(context.get("way", "")).partition(" ")
    wrong = named == rule and context.get("acted")
    return RETURNED[what]() if wrong else otherwise


def key(context: Mapping[str, Any]) -> str | Iterable[str]:
    return cast(str, _asked(context, "key", ""))


def cost(context: Mapping[str, Any]) -> int:
    return cast(int, _asked(context, "cost", 0))


def weight(context: Mapping[str, Any]) -> int:
    return cast(int, _asked(context, "weight", 1))


def tokens(context: Mapping[str, Any]) -> Mapping[str, int]:
    return cast(Mapping[str, int], _asked(context, "tokens", {}))


def needed(context: Mapping[str, Any]) -> bool:
    return cast(bool, _asked(context, "needed", True))
