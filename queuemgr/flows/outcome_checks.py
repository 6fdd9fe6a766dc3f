"""What a step returned or raised, as an outcome that can be stored.

Everything is checked before it goes near the database: a result that no row can hold would otherwise
fail when it is stored, after the work was done and paid for, and again at every retry.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from queuemgr.base.column_sizes import MAX_INTEGER, MAX_LIMIT_KEY
from queuemgr.base.meters import meters
from queuemgr.base.redaction import describe_error
from queuemgr.base.safe_text import excerpt, is_storable
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Result, Skipped, Snoozed
from queuemgr.flows.retry_policy import Policy

MAX_CONTEXT_BYTES = 1_048_576
"""Bytes of JSON that a step may add to the context of its execution: it names results, not holds them."""

MAX_RESULT_BYTES = 1_048_576
"""Bytes of JSON of a result. A larger one belongs in a file or in rows of the application."""

MAX_SECONDS = 3660 * 86_400.0
"""Longest wait, as for any time that is set ahead: ten years."""

MAX_ERROR_KIND = 32


def checked(returned: object) -> Result:
    """The outcome of a step that returned this; `Failed` of kind "unexpected" if that cannot be stored."""
    if returned is None:
        return Done()
    try:
        return _outcome(returned)
    except _TooLarge as error:
        return Failed("too_large", f"its {error}: store it elsewhere, and return where it is")
    except BaseException as error:  # a mapping of the application's own may raise anything when it is read
        return Failed("unexpected", f"its result could not be stored: {describe_error(error)}")


def _outcome(returned: object) -> Result:
    for kind, check in _CHECKS.items():
        if isinstance(returned, kind):
            return check(returned)
    raise TypeError(
        f"a step returns an outcome, such as Done(), Skipped(...) or Snoozed(...), or None; "
        f"this one returned a {type(returned).__name__}"
    )


def _done(done: Done) -> Done:
    return Done(
        _context(done.context), _store(done.store), _cost(done.cost), _service_result(done.service_result),
        None if done.result is None else _json("result", done.result, MAX_RESULT_BYTES),
    )  # fmt: skip


def _skipped(skipped: Skipped) -> Skipped:
    return Skipped(_text("reason", skipped.reason))


def _snoozed(snoozed: Snoozed) -> Snoozed:
    result = snoozed.service_result
    return Snoozed(
        _seconds(snoozed.seconds), _text("reason", snoozed.reason), _context(snoozed.context),
        _store(snoozed.store), _done(result) if isinstance(result, Done) else _service_result(result),
    )  # fmt: skip


def _failed(failed: Failed) -> Failed:
    return Failed(
        _error_kind(failed.kind), _text("message", failed.message), _wait(failed.retry_after),
        _cost(failed.cost), _limit(failed.limit), _store(failed.store), bool(failed.blames_service),
        _policy(failed.policy), _text("traceback", failed.traceback), _meter(failed.meter),
    )  # fmt: skip


def _interrupted(interrupted: Interrupted) -> Interrupted:
    return Interrupted(_text("reason", interrupted.reason))


_CHECKS: Mapping[type, Callable[[Any], Result]] = {
    Done: _done, Skipped: _skipped, Snoozed: _snoozed, Failed: _failed, Interrupted: _interrupted,
}  # fmt: skip
"""Not `Lost`: that a worker is gone is not for a step to say."""


def _context(context: Any) -> dict[str, Any]:
    """The context as both databases will store it."""
    if not isinstance(context, Mapping):
        raise TypeError(f"context is a {type(context).__name__}, not a mapping")
    stored: dict[str, Any] = _json("context", dict(context), MAX_CONTEXT_BYTES) if context else {}
    return stored


def _json(what: str, value: Any, most: int) -> Any:
    """The value as both databases will store it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if (size := len(text.encode("utf-8", "surrogatepass"))) > most:
        raise _TooLarge(f"{what} has {size:,} bytes of JSON; {most:,} fit")
    stored = json.loads(text)
    _check_texts(what, stored)
    return stored


class _TooLarge(ValueError):
    """Another attempt would return as much again."""


def _check_texts(what: str, value: Any) -> None:
    """Raise `ValueError` for a text in this JSON that no row can hold."""
    if isinstance(value, str) and not is_storable(value):
        raise ValueError(f"{what} holds a NUL character or half a surrogate pair, which no row can hold")
    if isinstance(value, dict):
        for name in value:
            _check_texts(what, name)
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            _check_texts(what, inner)


def _store(store: Any) -> Callable[[], None] | None:
    if store is not None and not callable(store):
        raise TypeError(f"store is a {type(store).__name__}, which cannot be called")
    called: Callable[[], None] | None = store
    return called


def _cost(cost: Any) -> int | None:
    if cost is None:
        return None
    if isinstance(cost, bool) or not isinstance(cost, int):
        raise TypeError(f"cost is a {type(cost).__name__}, not a whole number of requests")
    if not 0 <= cost <= MAX_INTEGER:
        raise ValueError(f"cost {excerpt(cost)} is not between 0 and {MAX_INTEGER}")
    return int(cost)


def _service_result(result: Any) -> Failed | None:
    if result is None:
        return None
    if not isinstance(result, Failed):
        raise TypeError(f"service_result is a {type(result).__name__}, not Failed")
    return replace(_failed(result), store=None)


def _policy(policy: Any) -> Policy | None:
    if policy is None:
        return None
    if not isinstance(policy, Policy):
        raise TypeError(f"policy is a {type(policy).__name__}, not a Policy")
    return policy.checked()


def _text(what: str, text: Any) -> str:
    """A text; what no row can hold of it is replaced when it is written."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is a {type(text).__name__}, not a text")
    return _plain(text)


def _plain(text: str) -> str:
    """The characters of a text, whatever methods its class has."""
    return str.__str__(text)


def _error_kind(kind: Any) -> str:
    if not isinstance(kind, str):
        raise TypeError(f"error kind is a {type(kind).__name__}, not a text")
    plain = _plain(kind)
    if not 0 < len(plain) <= MAX_ERROR_KIND or not is_storable(plain):
        raise ValueError(f"error kind {plain[:60]!r} has {len(plain)} characters; 1 to {MAX_ERROR_KIND} fit")
    return plain


def _limit(limit: Any) -> str:
    if not isinstance(limit, str):
        raise TypeError(f"limit is a {type(limit).__name__}, not the name of one")
    plain = _plain(limit)
    if len(plain) > MAX_LIMIT_KEY or not is_storable(plain):
        raise ValueError(f"limit {plain[:60]!r} has {len(plain)} characters; {MAX_LIMIT_KEY} fit")
    return plain


def _meter(meter: Any) -> str:
    """The name of a meter; none, if there is no such meter: the refusal holds for all work of the limit."""
    return _plain(meter) if isinstance(meter, str) and _plain(meter) in meters() else ""


def _seconds(seconds: Any) -> float:
    number = _number("seconds", seconds)
    if not math.isfinite(number):
        raise ValueError(f"seconds is {number}: a wait has an end")
    return min(max(number, 0.0), MAX_SECONDS)


def _wait(retry_after: Any) -> float | None:
    """A wait a service asked for; one without an end is none, and the backoff of its kind applies."""
    if retry_after is None:
        return None
    number = _number("retry_after", retry_after)
    return min(max(number, 0.0), MAX_SECONDS) if math.isfinite(number) else None


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} is a {type(value).__name__}, not a number of seconds")
    try:
        return float(value)
    except OverflowError:
        return math.inf
