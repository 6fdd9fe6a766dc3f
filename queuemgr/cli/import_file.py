from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from queuemgr.enqueue import Enqueued, enqueue_many, priority_of
from queuemgr.errors import BadInput, QueueFull
from queuemgr.flow import PRIORITIES, Flow, Intake, get_flow

NAME = "import"
HELP = "make executions of the items in a file, a line each (JSON or bare); - reads standard input"
EXAMPLES = """
  queue import papers.jsonl                  lines: {"doi": "10.1000/xyz"} or arXiv:2101.00001
  queue import --later millions.jsonl        know them; beat starts SLUICE_SEED_LIMIT at a time
  queue import --priority low - < ids.txt
  exit codes: 0 every line was good, 2 some were bad (named; the others went in), 3 no such file, or
  a queue is full (what went in before stays in; the same file again goes on)
"""

LINES_AT_A_TIME = 500

Numbered = list[tuple[int, str]]
"""Lines by their numbers, or what is wrong with them."""


def add_arguments(parser: Any) -> None:
    parser.add_argument("file", help="a file of lines, or - for standard input")
    parser.add_argument("--flow", default="papers", help="which flow (default papers)")
    parser.add_argument("--priority", default="normal", choices=PRIORITIES, help="default normal")
    parser.add_argument("--later", action="store_true", help="only know them: seeding starts them")


def run(options: dict[str, Any], out: Any) -> int:
    flow = get_flow(options["flow"])
    if flow.take_in is None or (options["later"] and flow.know is None):
        raise BadInput(f"flow {flow.name!r} takes no items from a file")
    bad: Numbered = []
    try:
        with _opened(options["file"]) as lines:
            said = _take_in(flow, lines, bad, options)
        out.write(f"{said}, {len(bad)} bad")
    finally:
        for number, problem in bad:
            out.write(f"line {number}: {problem}")
    return 2 if bad else 0


def _take_in(flow: Flow, lines: Any, bad: Numbered, options: dict[str, Any]) -> str:
    """Take in every line that is good, and say how many."""
    if options["later"]:
        known = sum(_know(flow, some, bad) for some in _chunks(lines))
        return f"{known} known for later"
    total, priority = Enqueued(), priority_of(options["priority"])
    for some in _chunks(lines):
        total += _enqueue(flow, some, bad, priority, total)
    return f"{total.new} new, {total.already} already there"


def _enqueue(
    flow: Flow, lines: Numbered, bad: Numbered, priority: int, before: Enqueued
) -> Enqueued:
    """Enqueue what is good of these lines; a queue that is full says what went in of the whole file."""
    try:
        return enqueue_many(flow.name, _understood(flow, lines, bad), priority=priority)
    except QueueFull as full:
        new, already = before.new + full.new, before.already + full.already
        raise QueueFull(full.queue, full.depth, full.cap, new, already) from None


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


def _understood(flow: Flow, lines: Numbered, bad: Numbered) -> Iterator[Intake]:
    assert flow.take_in is not None
    for number, line in lines:
        try:
            yield flow.take_in(_utf8(line))
        except BadInput as error:
            bad.append((number, str(error)))


def _know(flow: Flow, lines: Numbered, bad: Numbered) -> int:
    """Know all of them at once, or, when some are bad, one by one to learn which."""
    assert flow.know is not None
    try:
        flow.know([_utf8(line) for _, line in lines])
        return len(lines)
    except BadInput:
        known = 0
    for number, line in lines:
        try:
            flow.know([_utf8(line)])
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
