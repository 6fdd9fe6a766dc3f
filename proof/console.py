"""An operator's process beside the fleet: one line of JSON in for each command, one out.

`["queue", argument, …]` runs `manage.py queue`; `["edit", limit, {field: value}]` edits a limit as the
admin does; `["cap", queue, most]` caps what may wait in a queue; `["put", flow, key, payload]` enqueues as an
application does, `["unique", flow, key, rule, thing, seconds]` what may be there already, and
`["fan-in", name, [count, count], seconds]` a batch with one in it. The response is `[succeeded, output]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from tests.operator_console import OperatorConsole, serve


class Console(OperatorConsole):
    """The process, as the proof uses it."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        super().__init__("proof.console", environment, log)

    def do(self, *what: Any) -> tuple[bool, str]:
        """Run a command; returns whether it succeeded, and its output."""
        succeeded, output = self.ask(*what)
        return bool(succeeded), str(output)


def _done(verb: str, *what: Any) -> tuple[bool, str]:
    from django.core.exceptions import ValidationError
    from django.core.management import CommandError
    from django.db import DatabaseError, connection

    from queuemgr import SluiceError

    try:
        return True, VERBS[verb](*what)
    except (CommandError, DatabaseError, ValidationError, SluiceError) as error:
        return False, str(error)
    except SystemExit as stop:
        return not stop.code, f"exit code {stop.code}"
    finally:
        connection.close()


def _queue(*arguments: str) -> str:
    from django.core.management import call_command

    out = StringIO()
    call_command("queue", *arguments, stdout=out)
    return out.getvalue()


def _edit(limit: str, values: Mapping[str, Any]) -> str:
    from queuemgr.operations import controls

    controls.edit_limit(limit, controls.Actor("proof", "command"), new=True, **values)
    return ""


def _cap(queue: str, most: int) -> str:
    from queuemgr.operations import controls

    controls.edit_queue(queue, controls.Actor("proof", "command"), max_pending=most)
    return ""


def _unique(flow: str, key: str, rule: str, thing: str, seconds: float) -> str:
    """Returns the key of the execution that there is."""
    from proof.shared_keys import rule_of
    from queuemgr import NewExecution
    from queuemgr.lifecycle.enqueue import enqueue_many

    new = NewExecution(key, {"thing": thing, "seconds": seconds}, unique=rule_of(rule))
    return str(enqueue_many(flow, [new]).instead.get(key, key))


def _fan_in(name: str, counts: Sequence[int], seconds: float) -> str:
    """A batch and one in it, with members and callbacks, or none of it."""
    from django.db import transaction

    from proof import metered
    from proof.shared_keys import EVENTS, FLOW, names
    from queuemgr import NewExecution
    from queuemgr.flows.call import Call
    from queuemgr.operations import batches

    opened: list[Any] = []
    with transaction.atomic():
        for each, count in zip(names(name), counts, strict=True):
            calls = {event: Call(FLOW, {}, f"{each}:{event}") for event in EVENTS}
            around = opened[0] if opened else None
            opened.append(
                batches.open_batch(
                    each, "probe", None, callbacks=calls, parent=around,
                    allowances="" if around else metered.OF_BATCHES,
                )
            )  # fmt: skip
            payload = {"seconds": seconds, "phase": "prep", "uses": {"tokens": metered.PER_MEMBER}}
            batches.add(opened[-1], [NewExecution(f"{each}-{n}", payload) for n in range(count)])
        for batch in reversed(opened):
            batches.close(batch, None)
    return ""


def _put(flow: str, key: str, payload: Mapping[str, Any]) -> str:
    from queuemgr import enqueue

    enqueue(flow, key, payload)
    return ""


VERBS: Mapping[str, Callable[..., str]] = {
    "queue": _queue, "edit": _edit, "cap": _cap, "put": _put, "unique": _unique, "fan-in": _fan_in,
}  # fmt: skip


if __name__ == "__main__":
    serve(_done)
