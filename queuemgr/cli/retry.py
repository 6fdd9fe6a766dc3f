from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.cli import by_key
from queuemgr.cli.output import by_command
from queuemgr.flows import payload_validation
from queuemgr.models import Execution
from queuemgr.operations import executions

NAME = "retry"
HELP = "retry failed, cancelled or skipped executions from their step, or from the start"
EXAMPLES = f"""
  queue retry order-1001 order-1002 --reason "the host is back"
  queue retry order-1001 --from-start      discards the context its steps have stored
  queue show KEY --json | jq .payload > p.json; queue retry KEY --payload p.json
  done work is left unchanged; for all failures of one kind: queue retry-failed
  {by_key.EXIT_CODES}
"""


def add_arguments(parser: Any) -> None:
    by_key.add_arguments(parser)
    parser.add_argument("--from-start", action="store_true", help="retry from the first step it needs")
    parser.add_argument(
        "--payload", metavar="FILE", help="with this payload, a JSON object; - reads standard input"
    )


def run(options: dict[str, Any], out: Any) -> int:
    by, from_start = by_command(options["reason"]), options["from_start"]
    if options["payload"]:
        if len(options["keys"]) > 1:
            raise BadInput("--payload is for one execution: name one key")
        payload = payload_validation.parse(_text(options["payload"]))

    def act(execution: Execution) -> int:
        if options["payload"]:
            given = payload_validation.restore_masked(payload, execution.payload)
            return executions.retry_with_payload(execution, given, by, from_start=from_start)
        return (executions.retry_from_start if from_start else executions.retry)([execution], by)

    return by_key.change_each(options, out, act, "retried")


def _text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{name} cannot be read: {error}") from None
