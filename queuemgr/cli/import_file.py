from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from queuemgr.base.errors import BadInput, QueueFull
from queuemgr.cli.exit_codes import FINE, SOME_FAILED
from queuemgr.cli.output import by_command
from queuemgr.cli.progress_bar import tracked
from queuemgr.flows.flow import PRIORITIES, Flow, NewExecution, get_flow
from queuemgr.lifecycle.enqueue import Enqueued, enqueue_many, priority_of
from queuemgr.operations import batches
from queuemgr.operations.audited_enqueue import audited_enqueue, record_enqueue

NAME = "import"
HELP = "make executions of the items in a file, a line each (JSON or bare); - reads standard input"
EXAMPLES = """
  queue import papers.jsonl                  lines: {"doi": "10.1000/xyz"} or arXiv:2101.00001
  queue import --later millions.jsonl        know them; beat starts SLUICE_SEED_LIMIT at a time
  queue import --priority low - < ids.txt
  queue import --batch nightly papers.jsonl  as members of a batch, in the order of the lines
  exit codes: 0 every line was good, 2 some were bad (named; the others went in), 3 no such file, or
  a queue is full (what went in before stays in; the same file again goes on)
"""

LINES_AT_A_TIME = 500

Enqueue = Callable[[Iterable[NewExecution]], Enqueued]

Numbered = list[tuple[int, str]]
"""Lines by their numbers, or what is wrong with them."""


def add_arguments(parser: Any) -> None:
    parser.add_argument("file", help="a file of lines, or - for standard input")
    parser.add_argument("--flow", help="which flow (default papers, or the batch's)")
    parser.add_argument("--priority", default="normal", choices=PRIORITIES, help="default normal")
    parser.add_argument("--later", action="store_true", help="only know them: seeding starts them")
    parser.add_argument("--batch", help="make them members of this batch, in this order")


def run(options: dict[str, Any], out: Any) -> int:
    if options["batch"]:
        return _into_batch(options, out)
    flow = get_flow(options["flow"] or "papers")
    if options["later"]:
        return parse_item(options["file"], flow, None, out)
    priority = priority_of(options["priority"])
    enqueue = partial(enqueue_many, flow.name, priority=priority)
    with audited_enqueue(flow.name, by_command(), priority=options["priority"]) as counted:
        return parse_item(options["file"], flow, lambda some: counted(enqueue(some)), out)


def _into_batch(options: dict[str, Any], out: Any) -> int:
    batch = batches.find(options["batch"])
    if options["later"]:
        raise BadInput("members of a batch are enqueued at once: leave out --later")
    if options["flow"] not in (None, batch.flow):
        raise BadInput(f"batch {batch.name} is of flow {batch.flow!r}: leave out --flow")
    add = partial(batches.add, batch, priority=priority_of(options["priority"]))
    with audited_enqueue(
        batch.flow, by_command(), priority=options["priority"], batch=batch.name
    ) as counted:
        return parse_item(
            options["file"], get_flow(batch.flow), lambda some: counted(add(some)), out
        )


def parse_item(file: str, flow: Flow, enqueue: Enqueue | None, out: Any) -> int:
    """Enqueue every line that is good (or, without `enqueue`, know it for later), say how many, and
    name those that were not; the exit code."""
    if flow.parse_item is None or (enqueue is None and flow.register_items is None):
        raise BadInput(f"flow {flow.name!r} takes no items from a file")
    bad: Numbered = []
    try:
        with _opened(file) as lines:
            some = _chunks(tracked(lines, "importing", lambda: _bytes(file), len))
            said = _enqueue(flow, some, bad, enqueue) if enqueue else _know_all(flow, some, bad)
        out.write(f"{said}, {len(bad)} bad")
    finally:
        for number, problem in bad:
            out.write(f"line {number}: {problem}")
    return SOME_FAILED if bad else FINE


def _bytes(file: str) -> float | None:
    """How long the file is; None for what has no end known."""
    return (Path(file).stat().st_size or None) if file != "-" else None


def _know_all(flow: Flow, chunks: Iterator[Numbered], bad: Numbered) -> str:
    known = sum(_know(flow, some, bad) for some in chunks)
    record_enqueue(flow.name, known, by_command(), later=True)
    return f"{known} known for later"


def _enqueue(flow: Flow, chunks: Iterator[Numbered], bad: Numbered, enqueue: Enqueue) -> Enqueued:
    """Enqueue what is good of these lines; a queue that is full says what went in of the whole file."""
    total = Enqueued()
    for some in chunks:
        try:
            total += enqueue(_understood(flow, some, bad))
        except QueueFull as full:
            new, already = total.new + full.new, total.already + full.already
            raise QueueFull(full.queue, full.depth, full.cap, new, already) from None
    return total


def _opened(name: str) -> Any:
    if name == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}") from None


def _chunks(lines: Any) -> Iterator[Numbered]:
    """Lines with their numbers, blank ones left out; what is not UTF-8 is kept to be refused."""
    some: Numbered = []
    for number, line in enumerate(lines, start=1):
        encoding = "utf-8-sig" if number == 1 else "utf-8"
        text = line.decode(encoding, "surrogateescape").strip()
        if text:
            some.append((number, text))
        if len(some) == LINES_AT_A_TIME:
            yield some
            some = []
    yield some


def _understood(flow: Flow, lines: Numbered, bad: Numbered) -> Iterator[NewExecution]:
    assert flow.parse_item is not None
    for number, line in lines:
        try:
            yield flow.parse_item(_utf8(line))
        except BadInput as error:
            bad.append((number, str(error)))


def _know(flow: Flow, lines: Numbered, bad: Numbered) -> int:
    """Know all of them at once, or, when some are bad, one by one to learn which."""
    assert flow.register_items is not None
    try:
        flow.register_items([_utf8(line) for _, line in lines])
        return len(lines)
    except BadInput:
        known = 0
    for number, line in lines:
        try:
            flow.register_items([_utf8(line)])
            known += 1
        except BadInput as error:
            bad.append((number, str(error)))
    return known


def _utf8(line: str) -> str:
    try:
        line.encode()
    except UnicodeEncodeError:
        raise BadInput("not UTF-8") from None
    return line
