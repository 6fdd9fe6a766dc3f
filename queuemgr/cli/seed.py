from __future__ import annotations

from typing import Any

from queuemgr import housekeeping
from queuemgr.cli.knob_options import positive

NAME = "seed"
HELP = "start items known for later, and files dropped into the inbox: what beat does by itself"
EXAMPLES = """
  queue seed
  queue seed --limit 50
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("--limit", type=positive, help="most per flow (default SLUICE_SEED_LIMIT)")


def run(options: dict[str, Any], out: Any) -> int:
    for flow, seeded in housekeeping.seed(options["limit"]).items():
        out.write(f"{flow}: {seeded} started")
    return 0
