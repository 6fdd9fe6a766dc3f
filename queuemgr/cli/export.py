from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.cli.arguments import TIME_FORMAT, timestamp
from queuemgr.cli.progress_bar import shown, tracked
from queuemgr.models import State
from queuemgr.reporting.export import chosen, exported

NAME = "export"
HELP = "executions as JSON Lines for other programs, each with what its flow knows about its item"
EXAMPLES = """
  queue export --jsonl                          every execution, on standard output
  queue export --jsonl orders.jsonl --flow orders --state done
  queue export --jsonl --state failed --since 2026-11-28 | jq -r '[.key, .error_kind] | @tsv'
  a file is written under a temporary name and renamed when complete, so no reader sees a partial one;
  each line shows its row at the time it was read
  exit codes: 0 all written, 3 refused (with the reason), 130 interrupted, 141 the pipe's reader has gone
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "--jsonl", nargs="?", const="-", required=True, metavar="FILE",
        help="JSON Lines to this file (default, or -: standard output)",
    )  # fmt: skip
    parser.add_argument("--flow", help="only this flow")
    parser.add_argument(
        "--state", action="append", default=[], choices=State.values,
        help="only this state; may be repeated",
    )  # fmt: skip
    parser.add_argument("--kind", help="only this error kind")
    parser.add_argument("--since", type=timestamp, help=f"only enqueued or finished since ({TIME_FORMAT})")


def run(options: dict[str, Any], out: Any) -> int:
    rows = chosen(options["flow"], options["state"], options["kind"], options["since"])
    lines = tracked((as_json(facts) for facts in exported(rows)), "exporting", rows.count)
    if options["jsonl"] == "-":
        count = _write_all(lines, out.write)
    else:
        with replacing(Path(options["jsonl"])) as file:
            count = _write_all(lines, lambda line: file.write(f"{line}\n"))
    if not shown():
        sys.stderr.write(f"{count:,} exported\n")  # not to standard output: it may be a pipe
    return 0


def _write_all(lines: Iterable[str], write: Callable[[str], object]) -> int:
    count = 0
    for line in lines:
        write(line)
        count += 1
    return count


@contextmanager
def replacing(path: Path) -> Iterator[Any]:
    """A file that replaces `path` when the block ends; on an error `path` stays as it was.

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
