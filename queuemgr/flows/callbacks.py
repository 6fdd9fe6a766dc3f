"""Calls the callbacks of flows, each flow by itself: whatever one raises or returns, the others' still run.

A callback is an application's code. What it raises, `SystemExit` included, and a result of another type
than declared become `CallbackFailed`, which names the flow and the callback; so does a transaction it leaves
open. What the queue itself raises to refuse input (`REFUSALS`) passes, and so does an outage that the
watcher recognises.

One that still runs after `SLUICE_CALLBACK_SECONDS` is reported. A thread cannot be stopped, so a process that
serves others then ends itself (`when_one_hangs`), and the callback is left out for a while everywhere. So it
is with one that leaves its process unable to work, such as without a file it could open.
"""

from __future__ import annotations

import logging
import math
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from queuemgr.base import overdue_calls, process_state
from queuemgr.base.errors import BadInput, QueueFull, SluiceError
from queuemgr.base.misconduct import discard, is_not_run
from queuemgr.base.overdue_calls import Call
from queuemgr.base.raised import is_raised
from queuemgr.base.redaction import clean, describe_error, without_secrets
from queuemgr.flows.flow import CheckResult, Flow, Link, NewExecution

if TYPE_CHECKING:
    from pydantic import BaseModel

logger = logging.getLogger(__name__)

Checked = TypeVar("Checked")

REPORT_EVERY_SECONDS = 60.0


class CallbackFailed(BadInput):
    """A flow's callback raised, or returned something else than it declares."""

    def __init__(self, flow: str, callback: str, problem: str) -> None:
        super().__init__(f"flow {flow}: {callback} {problem}")
        self.flow, self.callback, self.problem = flow, callback, problem

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.flow, self.callback, self.problem))


class Watcher(Protocol):
    """Told how callbacks end. `is_outage` says which errors are not the callback's fault. `began` returns
    what undoes what a callback left behind, given what it raised or None, and says what that was: a sentence
    without a subject, or an empty text. One may run for `seconds`.

    `hung` is called, in another thread, with one that does not end, in a process that is about to:
    `letting_go`, asked before it was called, returned what frees the locks that others need meanwhile.
    `damage` says what keeps this process from working, and `damaged` is called with the one that did it.
    `why_left_out` says why one is not to be called now, or nothing."""

    def began(self) -> Callable[[BaseException | None], str]: ...

    def seconds(self) -> float: ...

    def letting_go(self) -> Callable[[], None]: ...

    def hung(self, failure: CallbackFailed) -> None: ...

    def damage(self) -> str: ...

    def damaged(self, failure: CallbackFailed) -> None: ...

    def why_left_out(self, flow: str, callback: str) -> str: ...

    def failed(self, failure: CallbackFailed) -> None: ...

    def worked(self, flow: str, callback: str) -> None: ...

    def is_outage(self, error: BaseException) -> bool: ...


_watchers: list[Watcher] = []


def watch(watcher: Watcher) -> None:
    """Tell this watcher, and no other, of every failure and success."""
    _watchers[:] = [watcher]


_leave: deque[Callable[[], object]] = deque(maxlen=1)
process_state.register(_leave.clear)

_damage: deque[str] = deque(maxlen=1)
"""What keeps this process, which is about to end, from working."""
process_state.register(_damage.clear, in_forked_child=True)


def when_one_hangs(leave: Callable[[], object]) -> None:
    """For a process that serves others and is started anew by its supervisor: call this, which ends it, when
    a callback does not end or damages it; and leave out those that lately did."""
    _leave.append(leave)


def backfill(flow: Flow, limit: int) -> int:
    """How many known items the flow enqueued. Raises `CallbackFailed`, and `QueueFull`."""
    return _call(flow, "backfill", _count, limit)


def cleanup(flow: Flow) -> int:
    return _call(flow, "cleanup", _count)


def limits(flow: Flow, check: Callable[[str, Mapping[str, Any]], None]) -> dict[str, dict[str, Any]]:
    """The default limits the flow states; `check` raises `BadResult` for a limit that cannot be."""

    def checked(result: object) -> dict[str, dict[str, Any]]:
        stated = _members_by_name(result)
        for name, fields in stated.items():
            check(name, fields)
        return stated

    return _call(flow, "limits", checked)


def export(flow: Flow, keys: list[str]) -> dict[str, dict[str, Any]]:
    return _call(flow, "export", _members_by_name, keys)


def link(flow: Flow, key: str) -> str:
    return _call(flow, "link", _text, key)


def artifacts(flow: Flow, key: str) -> list[Link]:
    return _call(flow, "artifacts", _links, key)


def forget(flow: Flow, keys: list[str]) -> None:
    """Let the flow delete what it stored of items whose executions are deleted."""
    _call(flow, "forget", _nothing, keys)


def register_items(flow: Flow, new: Sequence[NewExecution]) -> None:
    _call(flow, "register_items", _nothing, new)


def store_items(flow: Flow, new: Sequence[NewExecution]) -> None:
    """Let the flow store what it parsed of these; nothing where it has no such callback."""
    if flow.store_items is not None:
        _call(flow, "store_items", _nothing, new)


def parse_item(flow: Flow, item: str) -> NewExecution:
    return _call(flow, "parse_item", _new_execution, item)


def parse_remote_item(flow: Flow, item: str) -> NewExecution:
    """As `parse_item`, by the flow's rule for input from the network if it has one."""
    name = "parse_remote_item" if flow.parse_remote_item else "parse_item"
    return _call(flow, name, _new_execution, item)


def with_flags(flow: Flow, new: NewExecution, flags: Mapping[str, bool]) -> NewExecution:
    """The item with the flags that are set for it."""
    if flow.with_flags is None:
        return replace(new, payload={**new.payload, **flags})
    return _call(flow, "with_flags", _new_execution, new, flags)


def with_file(flow: Flow, new: NewExecution, name: str, content: bytes) -> NewExecution:
    """The item with what a file asks for it."""
    return _call(flow, "with_file", _new_execution, new, name, content)


def payload_model(flow: Flow) -> type[BaseModel] | None:
    """The model of this flow's payloads, if it states one."""
    return _call(flow, "payload_model", _model) if flow.payload_model else None


def checks(flow: Flow) -> list[CheckResult]:
    """What the flow's checks found; one that fails is a result itself, after those before it."""
    found: list[CheckResult] = []

    def collect(results: Any) -> None:
        for result in results:
            found.append(_check_result(result))

    try:
        _call(flow, "checks", collect)
    except CallbackFailed as failure:
        found.append(CheckResult("bad", str(failure), "correct the flow; the log has the traceback"))
    return found


def _call(flow: Flow, callback: str, check: Callable[[Any], Checked], *arguments: Any) -> Checked:
    """Call it and check its result, which may be a generator: what that raises counts, too."""
    if reason := _why_left_out(flow.name, callback):
        raise CallbackFailed(flow.name, callback, reason)
    with _timed(flow.name, callback) as timed:
        try:
            return _call_timed(timed, flow, callback, lambda: check(getattr(flow, callback)(*arguments)))
        finally:
            _end_if_damaged(flow.name, callback)


def _call_timed(timed: Call, flow: Flow, callback: str, call: Callable[[], Checked]) -> Checked:
    """However one that is overdue ends after all: that it did not end in time is reported, and stays so."""
    try:
        result = _undoing(call)
    except REFUSALS.get(callback, ()):
        raise
    except BaseException as error:
        if _is_interrupt(error) or any(watcher.is_outage(error) for watcher in _watchers):
            raise
        problem = str(error) if is_raised(error, BadResult) else f"raised {describe_error(error)}"
        failure = CallbackFailed(flow.name, callback, clean(problem))
        logger.error("%s", failure, exc_info=error)
        if not timed.overdue:
            _report(failure)
        raise failure from error
    if not timed.overdue:
        for watcher in _watchers:
            watcher.worked(flow.name, callback)
    return result


REFUSALS: Mapping[str, tuple[type[SluiceError], ...]] = {
    "backfill": (QueueFull,),
    "parse_item": (BadInput, QueueFull),
    "parse_remote_item": (BadInput, QueueFull),
    "register_items": (BadInput, QueueFull),
    "with_file": (BadInput,),
    "with_flags": (BadInput,),
}
"""What of the queue's own errors a callback may raise on purpose, for its caller to handle. Any other, such
as that of a rule of an item it enqueues, is a failure of this flow, and must not stop the others."""


UNTIMED = frozenset({"register_items", "checks"})
"""Callbacks that only a person's command calls: one reads a file of any length, `doctor` ends the other."""


def _timed(flow: str, callback: str) -> AbstractContextManager[Call]:
    limits = [] if callback in UNTIMED else [watcher.seconds() for watcher in _watchers]
    seconds = min(limits, default=math.inf)
    let_go = [watcher.letting_go() for watcher in _watchers] if _leave else []
    return overdue_calls.timed((flow, callback), seconds, partial(_hangs, let_go, seconds))


def _why_left_out(flow: str, callback: str) -> str:
    if _damage:
        return f"is not called: this process is damaged and ends ({_damage[0]})"
    if overdue_calls.is_overdue((flow, callback)):
        return "is not called: it still runs in another thread of this process"
    reasons = [watcher.why_left_out(flow, callback) for watcher in _watchers] if _leave else []
    return next(filter(None, reasons), "")


def _hangs(let_go: Iterable[Callable[[], None]], seconds: float, call: Call) -> None:
    flow, callback = call.what
    failure = CallbackFailed(flow, callback, f"still ran after {seconds:g} s")
    ends = ": this process ends" if _leave else ""
    logger.error("%s%s; it is here:", failure, ends, extra={"lines": call.where()})
    for free in let_go:
        free()
    for watcher in _watchers:
        watcher.hung(failure)
    for leave in [*_leave]:
        leave()


def _end_if_damaged(flow: str, callback: str) -> None:
    """Elsewhere, as in a command of a person's, the damage is that process's own."""
    damage = next(filter(None, (watcher.damage() for watcher in _watchers)), "") if _leave else ""
    if not damage or _damage:
        return
    _damage.append(damage)
    failure = CallbackFailed(flow, callback, f"left its process damaged: {damage}")
    logger.critical("%s: this process ends", failure)
    for watcher in _watchers:
        watcher.damaged(failure)
    for leave in [*_leave]:
        leave()


def _undoing(call: Callable[[], Checked]) -> Checked:
    """Call it, and undo what it leaves behind, whether it raises or returns."""
    ends = [watcher.began() for watcher in _watchers]
    try:
        result = call()
    except BaseException as error:
        for end in ends:
            end(error)
        raise
    if left := "".join([end(None) for end in ends]):
        raise BadResult(left)
    return result


def _is_interrupt(error: BaseException) -> bool:
    """Whether a person pressed Ctrl-C, rather than the callback having raised it: only where Python's own
    handler is set does the signal arrive so."""
    return (
        is_raised(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def _report(failure: CallbackFailed) -> None:
    for watcher in _watchers:
        watcher.failed(failure)


class BadResult(Exception):
    """A result that is not what the callback declares; the message follows its name, as `returned …`."""


def _not(wanted: str, result: object) -> BadResult:
    return BadResult(f"returned {type(result).__name__}, not {wanted}")


def _nothing(result: object) -> None:
    """Whatever it returns is ignored, unless that means that it has not run."""
    if is_not_run(result):
        discard(result)
        raise _not("None", result)


def _count(result: object) -> int:
    if isinstance(result, int) and result >= 0:
        return int(result)
    raise _not("a count", result)


def _model(result: Any) -> type[BaseModel]:
    if not (isinstance(result, type) and hasattr(result, "model_json_schema")):
        raise _not("a pydantic model", result)
    return result


def _text(result: object) -> str:
    if isinstance(result, str):
        return without_secrets(result)
    raise _not("a text", result)


def _links(result: Any) -> list[Link]:
    if isinstance(result, str):
        raise _not("a list of links", result)
    return [_as_link(each) for each in result]


def _as_link(each: Any) -> Link:
    if isinstance(each, tuple) and len(each) == 2 and all(isinstance(part, str) for part in each):
        return Link(*map(without_secrets, each))
    raise _not("a link: a label and an address", each)


def _new_execution(result: object) -> NewExecution:
    if isinstance(result, NewExecution):
        return result
    raise _not("a NewExecution", result)


def _check_result(result: object) -> CheckResult:
    if isinstance(result, CheckResult) and result.level in ("good", "note", "bad"):
        return CheckResult(result.level, clean(str(result.what)), clean(str(result.remedy)))
    raise _not("a CheckResult of level good, note or bad", result)


def _members_by_name(result: object) -> dict[str, dict[str, Any]]:
    if not isinstance(result, Mapping):
        raise _not("a mapping by name", result)
    named: dict[str, dict[str, Any]] = {}
    for name, members in result.items():
        if not isinstance(name, str):
            raise _not("a text, as a name", name)
        if not isinstance(members, Mapping):
            raise _not(f"a mapping of fields, for {name[:60]!r}", members)
        named[name] = dict(members)
    return named
