"""`queue export`: executions as JSON Lines."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.cli.arguments import ONLY_FLOW, TIME_FORMAT, past
from queuemgr.cli.progress_bar import shown, tracked
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.models import State
from queuemgr.reporting.export import chosen, exported


@subcommand(
    "export",
    option(
        "--jsonl", nargs="?", const="-", required=True, metavar="FILE",
        help="JSON Lines to this file (default, or -: standard output)",
    ),
    ONLY_FLOW,
    option(
        "--state", action="append", default=[], choices=State.values,
        help="only this state; may be repeated",
    ),
    option("--kind", "--error-kind", help="only this error kind"),
    option("--since", type=past, help=f"only enqueued or finished since ({TIME_FORMAT})"),
)  # fmt: skip
def export(options: Options, out: Any) -> None:
    """executions as JSON Lines for other programs, each with what its flow knows about its item

    queue export --jsonl                          every execution, on standard output
    queue export --jsonl orders.jsonl --flow orders --state done
    queue export --jsonl --state failed --since 2026-11-28 | jq -r '[.key, .error_kind] | @tsv'
    a file is written under a temporary name and renamed when complete, so no reader sees a partial one;
    each line shows its row at the time it was read
    exit codes: 0 all written, 3 refused (with the reason), 130 interrupted, 141 the pipe's reader has gone
    """
    rows = chosen(options["flow"], options["state"], options["kind"], options["since"])
    lines = tracked((as_json(facts) for facts in exported(rows)), "exporting", rows.count)
    count = 0
    with replacing(Path(options["jsonl"])) if options["jsonl"] != "-" else nullcontext(out.write) as write:
        for line in lines:
            write(f"{line}\n")
            count += 1
    if not shown():
        sys.stderr.write(f"{count:,} exported\n")  # not to standard output: it may be a pipe


@contextmanager
def replacing(path: Path) -> Iterator[Callable[[str], object]]:
    """Writes to a file that replaces `path` when the block ends; on an error `path` stays as it was. A new
    file is for its owner only, since payloads may be in it; one that was there keeps its permissions.

    Raises `BadInput` when it cannot be written.
    """
    try:
        handle, name = mkstemp(".part", f".{path.name}.", path.parent)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None
    part = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            if path.is_file():
                os.fchmod(handle, stat.S_IMODE(path.stat().st_mode))
            yield file.write
        part.replace(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)
