from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.cli.progress_bar import shown, tracked
from queuemgr.cli.replay import moment
from queuemgr.models import State
from queuemgr.reporting.export import chosen, exported

NAME = "export"
HELP = "executions for other programs: a line of JSON each, with what their flow knows of them"
EXAMPLES = """
  queue export --jsonl                          every execution, on standard output
  queue export --jsonl papers.jsonl --flow papers --state done
  queue export --jsonl --state failed --since 2026-11-28 | jq -r '[.key, .error_kind] | @tsv'
  a file is written beside and renamed when whole, so a reader never meets half of one; each line
  is as its row was when it was read
  exit codes: 0 all written, 3 could not (why), 130 stopped, 141 the reader of a pipe went away
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "--jsonl", nargs="?", const="-", required=True, metavar="FILE",
        help="JSON Lines to this file; standard output when none is named, or -",
    )  # fmt: skip
    parser.add_argument("--flow", help="only this flow")
    parser.add_argument(
        "--state", action="append", default=[], choices=State.values,
        help="only this state; again for several",
    )  # fmt: skip
    parser.add_argument("--kind", help="only this error kind")
    parser.add_argument(
        "--since", type=moment, help="enqueued or finished since, UTC, as 2026-11-28 06:00"
    )


def run(options: dict[str, Any], out: Any) -> int:
    rows = chosen(options["flow"], options["state"], options["kind"], options["since"])
    lines = tracked((as_json(facts) for facts in exported(rows)), "exporting", rows.count)
    if options["jsonl"] == "-":
        told(sum(_written(lines, out.write)))
        return 0
    with beside(Path(options["jsonl"])) as file:
        written = sum(_written(lines, lambda line: file.write(f"{line}\n")))
    told(written)
    return 0


def _written(lines: Iterable[str], write: Callable[[str], object]) -> Iterator[int]:
    for line in lines:
        write(line)
        yield 1


def told(count: int) -> None:
    """How many there were, on standard error: the output may be in a pipe."""
    if not shown():
        sys.stderr.write(f"{count:,} exported\n")


@contextmanager
def beside(path: Path) -> Iterator[Any]:
    """A file that takes the place of `path` once it is whole; else what was there stays.

    Raises `BadInput` when it cannot be written.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
