"""`queue import`: enqueueing or holding the items in a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from queuemgr.base.errors import BadInput, QueueFull
from queuemgr.base.safe_text import safe_text
from queuemgr.cli.arguments import PRIORITY, positive
from queuemgr.cli.dry_run import DRY_RUN, JSON, show_dry_run
from queuemgr.cli.enqueue import Enqueue, counts_of, enqueuing
from queuemgr.cli.exit_codes import FINE, SOME_FAILED
from queuemgr.cli.item_options import NOTHING, Asked, add_item_options, asked_by
from queuemgr.cli.output import by_command
from queuemgr.cli.progress_bar import tracked
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.flows import callbacks
from queuemgr.flows.flow import NORMAL, PRIORITIES, Flow, NewExecution, get_flow
from queuemgr.lifecycle.enqueue import Enqueued
from queuemgr.operations import batches
from queuemgr.operations.dry_run import DryRun
from queuemgr.operations.enqueueing import choose_flow, record_enqueue

LINES_PER_CHUNK = 500

LONGEST_LINE = 5_000_000
"""Bytes: more than any item or failure has, so that what is cut is refused for its length."""

Numbered = list[tuple[int, str]]
"""Lines with their numbers, or errors with the numbers of their lines."""


@subcommand(
    "import",
    option("file", help="a file of lines, or - for standard input"),
    option("--flow", help="which flow (default: as for enqueue, or the batch's)"),
    PRIORITY,
    option("--hold", action="store_true", help="hold them until a backfill"),
    option("--batch", help="add them to this batch, in this order"),
    option("--limit", type=positive, metavar="N", help="only the first N items of the file"),
    DRY_RUN,
    JSON,
    add_item_options,
)
def import_file(options: Options, out: Any) -> int:
    """enqueue the items in a file, one a line (JSON or plain); - reads standard input

    queue import orders.txt                    one item a line, as the flow understands it
    queue import --hold millions.txt           hold them; backfill enqueues SLUICE_SEED_LIMIT at a time
    queue import --priority low - < ids.txt
    queue import --dry-run orders.txt          what is new, what it would use and cost, and the ETA
    queue import --batch nightly orders.txt    as members of a batch, in the order of the lines
    exit codes: 0 every line was valid, 2 some were not (named; the others were enqueued), 3 no such file,
    or a queue is full (what was enqueued before stays; importing the file again continues)
    """
    batch = batches.find(options["batch"]) if options["batch"] else None
    if batch and options["hold"]:
        raise BadInput("members of a batch are enqueued at once: leave out --hold")
    if batch and options["flow"] not in (None, batch.flow):
        raise BadInput(f"batch {batch.name} is of flow {batch.flow!r}: leave out --flow")
    flow = get_flow(batch.flow) if batch else choose_flow(options["flow"])
    asked = asked_by(flow, options)
    if options["dry_run"]:
        if options["hold"]:
            raise BadInput("what is held uses nothing yet: leave out --hold")
        return _dry_run(options, flow, asked, out)
    if options["hold"]:
        return _hold(options, flow, asked, out)
    with enqueuing(flow, options["priority"], batch) as enqueue:
        return import_lines(options["file"], flow, enqueue, out, options["limit"], asked)


def import_lines(
    file: str, flow: Flow, enqueue: Enqueue, out: Any, limit: int | None = None, asked: Asked = NOTHING
) -> int:
    """Enqueue every valid line; writes the count and the error of each invalid line, and returns the exit
    code."""
    return _import(
        file,
        flow,
        out,
        limit,
        lambda chunks, bad: _enqueue(partial(_parse, flow, bad, asked), chunks, enqueue),
    )


def _hold(options: Options, flow: Flow, asked: Asked, out: Any) -> int:
    """The same, of lines that are held: with what is asked for them, until a backfill enqueues them."""
    if flow.register_items is None:
        raise BadInput(f"flow {flow.name!r} holds nothing back: leave out --hold")
    rank = PRIORITIES[options["priority"]]
    priority = None if rank == NORMAL else rank

    def hold(chunks: Iterable[Numbered], bad: Numbered) -> int:
        held = sum(_hold_chunk(flow, chunk, bad, asked, priority) for chunk in chunks)
        record_enqueue(flow.name, held, by_command(), held=True)
        return held

    return _import(options["file"], flow, out, options["limit"], hold)


def _import(
    file: str, flow: Flow, out: Any, limit: int | None,
    take: Callable[[Iterator[Numbered], Numbered], object],
) -> int:  # fmt: skip
    if flow.parse_item is None:
        raise BadInput(f"flow {flow.name!r} takes no items from a file")
    bad: Numbered = []
    try:
        with _in_chunks(file, limit) as chunks:
            done = take(chunks, bad)
        facts = counts_of(done) if isinstance(done, Enqueued) else {"held": done}
        text = str(done) if isinstance(done, Enqueued) else f"{done} held"
        out.say(f"{text}, {len(bad)} bad", **facts, bad=len(bad))
    finally:
        for number, problem in bad:
            out.say(f"line {number}: {safe_text(problem)}", line=number, problem=problem)
    return SOME_FAILED if bad else FINE


def _dry_run(options: Options, flow: Flow, asked: Asked, out: Any) -> int:
    """Say what importing the file would do; invalid lines are counted and the first named."""
    if flow.parse_item is None:
        raise BadInput(f"flow {flow.name!r} takes no items from a file")
    run, bad = DryRun(flow.name, PRIORITIES[options["priority"]]), Numbered()
    with _in_chunks(options["file"], options["limit"]) as chunks:
        for chunk in chunks:
            run.add(_parse(flow, bad, asked, chunk))
            for number, problem in bad:
                run.refuse(f"line {number}: {safe_text(problem)}")
            bad.clear()
    show_dry_run(run, options["json"], out)
    return SOME_FAILED if run.invalid else FINE


@contextmanager
def _in_chunks(file: str, limit: int | None) -> Iterator[Iterator[Numbered]]:
    """The lines of a file, some at a time, with a progress bar."""
    with open_lines(file) as lines:
        numbered = islice(numbered_lines(tracked(lines, "importing", lambda: _size_of(file), len)), limit)
        yield iter(lambda: list(islice(numbered, LINES_PER_CHUNK)), [])


@contextmanager
def open_lines(name: str) -> Iterator[Iterator[bytes]]:
    """The lines of a file, or of standard input; each cut at `LONGEST_LINE`, whatever the file holds."""
    with ExitStack() as opened:
        try:
            file: Any = sys.stdin.buffer if name == "-" else opened.enter_context(Path(name).open("rb"))
        except OSError as error:
            raise BadInput(f"{name} cannot be read: {error.strerror}") from None
        yield _cut(file)


def _cut(file: BinaryIO) -> Iterator[bytes]:
    try:
        while line := file.readline(LONGEST_LINE):
            rest = line
            while len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
                rest = file.readline(LONGEST_LINE)
            yield line
    except OSError as error:  # such as a folder
        raise BadInput(f"{file.name} cannot be read: {error.strerror}") from None


def _size_of(file: str) -> float | None:
    """Bytes in the file; None for a pipe."""
    return (Path(file).stat().st_size or None) if file != "-" else None


def numbered_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without blank ones; invalid UTF-8 is kept, to be reported."""
    for number, line in enumerate(lines, start=1):
        encoding = "utf-8-sig" if number == 1 else "utf-8"
        if text := line.decode(encoding, "surrogateescape").strip():
            yield number, text


def _enqueue(
    parse: Callable[[Numbered], Iterator[NewExecution]], chunks: Iterable[Numbered], enqueue: Enqueue
) -> Enqueued:
    """Enqueue the valid lines; `QueueFull` counts what was enqueued of the whole file."""
    total = Enqueued()
    for chunk in chunks:
        try:
            total += enqueue(parse(chunk))
        except QueueFull as full:
            raise full.after(total.new, total.already) from None
    return total


def _parse(flow: Flow, bad: Numbered, asked: Asked, lines: Numbered) -> Iterator[NewExecution]:
    for number, line in lines:
        try:
            yield from asked.of_each(flow, [callbacks.parse_item(flow, _utf8(line))])
        except BadInput as error:
            bad.append((number, str(error)))


def _hold_chunk(flow: Flow, lines: Numbered, bad: Numbered, asked: Asked, priority: int | None) -> int:
    """Register all lines at once or, if the flow refuses some, one by one to find out which."""
    invalid: Numbered = []
    valid = [replace(each, priority=priority) for each in _parse(flow, invalid, asked, lines)]
    try:
        callbacks.register_items(flow, valid)
    except BadInput as error:
        if len(lines) > 1:
            return sum(_hold_chunk(flow, [line], bad, asked, priority) for line in lines)
        invalid = [(lines[0][0], str(error))]
        valid = []
    bad.extend(invalid)
    return len(valid)


def _utf8(line: str) -> str:
    try:
        line.encode()
    except UnicodeEncodeError:
        raise BadInput("not UTF-8") from None
    return line
