from __future__ import annotations

import argparse
import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.cli.arguments import above_zero, natural, positive
from queuemgr.cli.output import by_command
from queuemgr.cli.progress_bar import tracked
from queuemgr.flows.flow import PRIORITIES, Flow, NewExecution, all_phases
from queuemgr.lifecycle.enqueue import enqueue_many, priority_of
from queuemgr.models import Batch
from queuemgr.operations import batches
from queuemgr.operations.audited_enqueue import audited_enqueue
from queuemgr.operations.flow_choice import choose_flow

NAME = "enqueue"
HELP = "enqueue items, as the flow understands them, or probes"
EXAMPLES = """
  queue enqueue order-1001 order-1002
  queue enqueue --flow probe --count 200 --seconds 0.2 --phase {phase} --priority high
  queue enqueue --flow probe --count 50 --requests 1 --limit-key host:a --trace /tmp/trace.jsonl
  queue enqueue --flow probe --tenant acme --weight 2 --tokens cpu=2,memory=1
  queue enqueue --flow probe --limit-key host:a --fail rate_limited --retry-after 30
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("items", nargs="*", help="what to work on, as the flow understands it")
    parser.add_argument("--flow", help="which flow (default SLUICE_DEFAULT_FLOW, else the only one)")
    parser.add_argument("--priority", default="normal", choices=PRIORITIES, help="default normal")
    parser.add_argument("--batch", help="make them members of this batch, in this order")
    probe = parser.add_argument_group("probes (--flow probe)")
    probe.add_argument("--count", type=positive, default=1, help="number of probes (default 1)")
    probe.add_argument("--seconds", type=float, default=0, help="seconds each sleeps")
    probe.add_argument("--cpu-ms", type=float, default=0, help="CPU milliseconds each uses")
    phases = list(all_phases())
    probe.add_argument("--phase", default=phases[0], choices=phases, help=f"default {phases[0]}")
    probe.add_argument("--requests", type=natural, default=0, help="requests each charges to the budget")
    probe.add_argument("--key-prefix", default="", help="keys are PREFIX-0, PREFIX-1, …")
    probe.add_argument("--limit-key", default="", help="limit each counts against, such as host:a")
    probe.add_argument("--tenant", default="", help="tenant: each counts against tenant:NAME")
    probe.add_argument(
        "--weight", type=positive, default=0, help="slots each takes of each limit (default 1)"
    )
    probe.add_argument("--tokens", type=tokens, default={}, metavar="NAME=N,…", help="format: cpu=2,memory=1")
    probe.add_argument("--trace", default="", help="file to which each appends its start and end")
    probe.add_argument("--fail", default="", metavar="KIND", help="fail with this error kind")
    probe.add_argument(
        "--retry-after", type=above_zero, default=0, metavar="SECONDS",
        help="with --fail: the Retry-After of the simulated service",
    )  # fmt: skip
    probe.add_argument("--die", action="store_true", help="kill the worker")


def tokens(text: str) -> dict[str, int]:
    """An argparse type: tokens with their counts, `cpu=2,memory=1`."""
    taken: dict[str, int] = {}
    for part in text.split(","):
        name, equals, number = part.strip().partition("=")
        if not (name and equals) or len(name.split()) != 1:
            raise argparse.ArgumentTypeError(f"{text!r} is invalid; format: cpu=2,memory=1")
        taken[name] = positive(number)
    return taken


def run(options: dict[str, Any], out: Any) -> int:
    priority, flow = priority_of(options["priority"]), choose_flow(options["flow"])
    enqueue = partial(enqueue_many, flow.name, priority=priority)
    if options["batch"]:
        enqueue = partial(batches.add, _batch(options["batch"], flow), priority=priority)
    probes = flow.name == "probe"
    intakes = _probes(options) if probes else items_of(flow, options["items"])
    many = tracked(intakes, "enqueuing", lambda: options["count"] if probes else len(options["items"]))
    how = {"priority": options["priority"], "batch": options["batch"]}
    with audited_enqueue(flow.name, by_command(), **how) as counted:
        done = counted(enqueue(many))
    out.write(str(done))
    return 0


def _batch(name: str, flow: Flow) -> Batch:
    batch = batches.find(name)
    if batch.flow != flow.name:
        raise BadInput(f"batch {batch.name} is of flow {batch.flow!r}: say --flow {batch.flow}")
    return batch


def items_of(flow: Flow, items: Sequence[str]) -> list[NewExecution]:
    """All items, parsed; raises `BadInput` before any is enqueued."""
    if flow.parse_item is None:
        raise BadInput(f"flow {flow.name!r} takes no items")
    if not items:
        raise BadInput("no items given: name at least one")
    return [flow.parse_item(item) for item in items]


PROBE_PAYLOAD = (
    "seconds", "cpu_ms", "phase", "requests", "limit_key", "trace", "fail", "die", "tenant",
    "weight", "tokens", "retry_after",
)  # fmt: skip


def _probes(options: dict[str, Any]) -> Iterator[NewExecution]:
    if options["items"]:
        raise BadInput("probes take no items: say --count")
    prefix = options["key_prefix"] or f"probe-{secrets.token_hex(4)}"
    payload = {name: options[name] for name in PROBE_PAYLOAD if options[name]}
    return (NewExecution(f"{prefix}-{n}", payload) for n in range(options["count"]))
