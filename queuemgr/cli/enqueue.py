"""`queue enqueue` and `queue backfill`."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from queuemgr.base import meters
from queuemgr.base.errors import BadInput
from queuemgr.cli.arguments import JSON_LINES, NEW_FLOW, PRIORITY, above_zero, natural, positive
from queuemgr.cli.change_executions import read_text
from queuemgr.cli.dry_run import DRY_RUN, JSON, show_dry_run
from queuemgr.cli.exit_codes import FINE, SOME_FAILED
from queuemgr.cli.item_options import Asked, add_item_options, asked_by
from queuemgr.cli.output import by_command
from queuemgr.cli.progress_bar import busy, tracked
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.flows import callbacks, payload_validation
from queuemgr.flows.flow import PRIORITIES, Flow, NewExecution, all_phases
from queuemgr.lifecycle.enqueue import Enqueued, enqueue_many
from queuemgr.models import Batch
from queuemgr.operations import batches
from queuemgr.operations.dry_run import DryRun
from queuemgr.operations.enqueueing import audited_enqueue, choose_flow, record_enqueue
from queuemgr.worker import housekeeping

Enqueue = Callable[[Iterable[NewExecution]], Enqueued]


def resources(text: str) -> dict[str, int]:
    """An argparse type: resources with their counts, `cpu=2,memory=1`."""
    taken: dict[str, int] = {}
    for part in text.split(","):
        name, equals, number = part.strip().partition("=")
        if not (name and equals) or len(name.split()) != 1:
            raise argparse.ArgumentTypeError(f"{text!r} is invalid; format: cpu=2,memory=1")
        taken[name] = positive(number)
    return taken


def amounts(text: str) -> dict[str, str]:
    """An argparse type: meters with amounts, `tokens=1200,usd=0.02`."""
    pairs = [part.strip().partition("=") for part in text.split(",")]
    if not all(equals for _, equals, _ in pairs):
        raise argparse.ArgumentTypeError(f"{text!r} is invalid; format: tokens=1200,usd=0.02")
    stated = {name: number for name, _, number in pairs}
    try:
        meters.stored(stated)
    except BadInput as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return stated


PROBE: dict[str, dict[str, Any]] = {
    "seconds": {"type": float, "help": "seconds each sleeps"},
    "cpu_ms": {"type": float, "help": "CPU milliseconds each uses"},
    "requests": {"type": natural, "help": "requests each charges to the budget"},
    "limit_key": {"help": "limit each counts against, such as host:a"},
    "tenant": {"help": "tenant: each counts against tenant:NAME"},
    "weight": {"type": positive, "help": "slots each takes of each limit (default 1)"},
    "resources": {"type": resources, "metavar": "NAME=N,…", "help": "format: cpu=2,memory=1"},
    "uses": {"type": amounts, "metavar": "METER=N,…", "help": "expected usage: tokens=1200,usd=0.02"},
    "spends": {"type": amounts, "metavar": "METER=N,…", "help": "what each uses in the end, if not that"},
    "trace": {"help": "file to which each appends its start and end"},
    "fail": {"metavar": "KIND", "help": "fail with this error kind"},
    "retry_after": {
        "type": above_zero, "metavar": "SECONDS",
        "help": "with --fail: the Retry-After of the simulated service",
    },
    "die": {"action": "store_true", "help": "kill the worker"},
}  # fmt: skip
"""What a probe's payload may say, beside its phase, and the option for it."""


def _add_probe_options(parser: Any) -> None:
    probe, phases = parser.add_argument_group("probes (--flow probe)"), list(all_phases())
    probe.add_argument("--count", type=positive, default=1, help="number of probes (default 1)")
    probe.add_argument("--key-prefix", default="", help="keys are PREFIX-0, PREFIX-1, …")
    probe.add_argument("--phase", default=phases[0], choices=phases, help=f"default {phases[0]}")
    for name, settings in PROBE.items():
        probe.add_argument(f"--{name.replace('_', '-')}", **settings)


@subcommand(
    "enqueue",
    option("items", nargs="*", help="what to work on, as the flow understands it"),
    NEW_FLOW,
    PRIORITY,
    option("--batch", help="make them members of this batch, in this order"),
    option(
        "--payload",
        metavar="JSON",
        help="for a flow that takes no items, which are then keys: their payload; - reads standard input",
    ),
    DRY_RUN,
    JSON,
    add_item_options,
    _add_probe_options,
)
def enqueue(options: Options, out: Any) -> None:
    """enqueue items, as the flow understands them, or probes

    queue enqueue order-1001 order-1002
    queue enqueue --flow probe --count 200 --seconds 0.2 --phase {phase} --priority high
    queue enqueue --flow probe --count 50 --requests 1 --limit-key host:a --trace /tmp/trace.jsonl
    queue enqueue --flow probe --tenant acme --weight 2 --resources cpu=2,memory=1
    queue enqueue --flow probe --count 20 --limit-key openai:gpt --uses tokens=1200 --spends tokens=900
    queue enqueue order-1001 order-1002 --dry-run     what is new, what it would use and cost, and the ETA
    queue enqueue letter-1 letter-2 --payload '{"host": "smtp.example.org:25"}'
    queue enqueue --flow probe --limit-key host:a --fail rate_limited --retry-after 30
    """
    flow = choose_flow(options["flow"])
    batch = batches.find(options["batch"]) if options["batch"] else None
    if batch and batch.flow != flow.name:
        raise BadInput(f"batch {batch.name} is of flow {batch.flow!r}: say --flow {batch.flow}")
    asked, probes = asked_by(flow, options), flow.name == "probe"
    items = _probes(options) if probes else _items(flow, options, asked)
    count = options["count"] if probes else len(options["items"])
    if options["dry_run"]:
        run = DryRun(flow.name, PRIORITIES[options["priority"]])
        run.add(tracked(items, "looking", lambda: count))
        show_dry_run(run, options["json"], out)
        return
    with enqueuing(flow, options["priority"], batch) as add:
        done = add(tracked(items, "enqueuing", lambda: count))
    out.say(str(done), **counts_of(done))


def counts_of(done: Enqueued) -> dict[str, Any]:
    """What `--json` says of what was enqueued."""
    return {"new": done.new, "already": done.already, "keys": done.new_keys, "instead": dict(done.instead)}


def _items(flow: Flow, options: Options, asked: Asked) -> Iterable[NewExecution]:
    """All of them, parsed, before any is enqueued."""
    return list(asked.of_each(flow, items_of(flow, options["items"], options["payload"])))


@contextmanager
def enqueuing(flow: Flow, priority: str, batch: Batch | None = None) -> Iterator[Enqueue]:
    """Yields what enqueues items, as members of a batch if one is given; recorded as one audit entry."""
    rank = PRIORITIES[priority]
    add = partial(batches.add, batch) if batch else partial(enqueue_many, flow.name)
    how = {"priority": priority, "batch": batch and batch.name}
    with audited_enqueue(flow.name, by_command(), **how) as counted:
        yield lambda items: counted(add(items, priority=rank))


def items_of(flow: Flow, items: Sequence[str], payload: str | None = None) -> list[NewExecution]:
    """All items, parsed; raises `BadInput` before any is enqueued."""
    if flow.parse_item is not None and payload:
        raise BadInput(f"flow {flow.name!r} makes payloads itself: leave out --payload")
    if flow.parse_item is None:
        if not payload:
            raise BadInput(f"flow {flow.name!r} takes no items: give keys and --payload '{{…}}'")
        given = payload_validation.parse(read_text("-") if payload == "-" else payload)
        return [NewExecution(key, given) for key in items]
    if not items:
        raise BadInput("no items given: name at least one")
    return [callbacks.parse_item(flow, item) for item in items]


def _probes(options: dict[str, Any]) -> Iterator[NewExecution]:
    if options["items"]:
        raise BadInput("probes take no items: say --count")
    prefix = options["key_prefix"] or f"probe-{secrets.token_hex(4)}"
    payload = {name: options[name] for name in ("phase", *PROBE) if options[name]}
    return (NewExecution(f"{prefix}-{n}", payload) for n in range(options["count"]))


@subcommand(
    "backfill",
    option("--limit", type=positive, help="maximum per flow (default SLUICE_SEED_LIMIT)"),
    JSON_LINES,
)
def backfill(options: Options, out: Any) -> int:
    """enqueue held items and files in the inbox, as beat does periodically

    queue backfill
    queue backfill --limit 50
    a full queue takes what it can; the next backfill continues
    exit codes: 0 done, or as much as full queues took, 2 a flow's backfill failed (named)
    """
    with busy("looking for held items"):
        results = list(housekeeping.backfill_each(options["limit"]))
    for done in results:
        record_enqueue(done.flow, done.started, by_command(), backfill=True)
        stopped = done.full or done.failure
        said = f"{done.flow}: {done.started} started{f'; {stopped}' if stopped else ''}"
        out.say(said, flow=done.flow, started=done.started, stopped=str(stopped) if stopped else None)
    return SOME_FAILED if any(done.failure for done in results) else FINE
