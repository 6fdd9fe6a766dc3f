from __future__ import annotations

from typing import Any

from queuemgr.cli.arguments import positive
from queuemgr.cli.output import by_command
from queuemgr.cli.progress_bar import busy
from queuemgr.operations.audited_enqueue import record_enqueue
from queuemgr.worker import housekeeping

NAME = "backfill"
HELP = "enqueue held items and files in the inbox, as beat does periodically"
EXAMPLES = """
  queue backfill
  queue backfill --limit 50
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("--limit", type=positive, help="maximum per flow (default SLUICE_SEED_LIMIT)")


def run(options: dict[str, Any], out: Any) -> int:
    with busy("looking for held items"):
        started_by_flow = housekeeping.backfill(options["limit"])
    for flow, started in started_by_flow.items():
        record_enqueue(flow, started, by_command(), backfill=True)
        out.write(f"{flow}: {started} started")
    return 0
