"""`queue worker list`, `drain` and `resume`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from queuemgr.cli.arguments import JSON_LINES, JSON_OBJECT, REASON
from queuemgr.cli.output import by_command, clock, listing
from queuemgr.cli.subcommands import Options, group, option, subcommand
from queuemgr.operations import workers
from queuemgr.reporting import worker_states

NAME = option(
    "name", help="the worker's name, as `queue worker list` shows it; without @host where it is unique"
)

group("worker", "list the workers; have one take no new work, and again")


@subcommand("worker list", JSON_LINES)
def list_all(options: Options, out: Any) -> None:
    """live workers, drained ones, and those of the last day that are gone

    queue worker list
    queue worker list --json | jq -r 'select(.drained != "") | .worker'
    """
    rows = worker_states.workers()
    has_async = any(worker.async_slots for worker in rows)
    columns = ("worker", "condition", "busy", "slots", *(["async"] if has_async else []), "queues",
               "last heartbeat", "")  # fmt: skip
    cells = (
        (w.worker, w.condition, w.busy, w.slots, *([w.of_async_slots] if has_async else []),
         ", ".join(w.queues), clock(w.seen), w.drained)
        for w in rows
    )  # fmt: skip
    listing(out, map(asdict, rows) if options["json"] else None, columns, cells)


@subcommand("worker drain", NAME, REASON, JSON_OBJECT)
def drain(options: Options, out: Any) -> None:
    """have a worker take no new work: it stays up and finishes what runs, however long that takes

    queue worker drain steps@host1 --reason "new disk at noon"

    It holds for the name, also after a restart, until it is resumed.
    """
    name = workers.find(options["name"])
    changed = workers.drain(name, by_command(options["reason"]))
    said = "drained: it takes no new work" if changed else "was drained already"
    out.say(f"{name} {said}", worker=name, drained=True, changed=changed)


@subcommand("worker resume", NAME, REASON, JSON_OBJECT)
def resume(options: Options, out: Any) -> None:
    """let a drained worker take work again, without a restart

    queue worker resume steps@host1
    """
    name = workers.find(options["name"])
    changed = workers.resume(name, by_command(options["reason"]))
    said = "resumed" if changed else "was not drained"
    out.say(f"{name} {said}", worker=name, drained=False, changed=changed)
