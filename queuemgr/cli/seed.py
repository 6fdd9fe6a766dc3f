from __future__ import annotations

from typing import Any

from queuemgr.cli.config_options import positive
from queuemgr.cli.output import by_command
from queuemgr.cli.progress_bar import busy
from queuemgr.operations.audited_enqueue import record_enqueue
from queuemgr.worker import housekeeping

NAME = "seed"
HELP = "start items known for later, and files dropped into the inbox: what beat does by itself"
EXAMPLES = """
  queue seed
  queue seed --limit 50
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("--limit", type=positive, help="most per flow (default SLUICE_SEED_LIMIT)")


def run(options: dict[str, Any], out: Any) -> int:
    with busy("looking for what is known and not under way"):
        seeded_by_flow = housekeeping.backfill(options["limit"])
    for flow, seeded in seeded_by_flow.items():
        record_enqueue(flow, seeded, by_command(), seeded=True)
        out.write(f"{flow}: {seeded} started")
    return 0
