"""`queue list`: executions that match filters, the newest first."""

from __future__ import annotations

from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.cli import output
from queuemgr.cli.arguments import JSON_LINES, positive
from queuemgr.cli.bulk import read_filter
from queuemgr.cli.output import clock, write_json
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.flows.flow import PRIORITY_NAMES
from queuemgr.models import UNBOUNDED, Execution
from queuemgr.operations import saved_views
from queuemgr.reporting import explain
from queuemgr.reporting.filtering import FILTERS, executions_matching
from queuemgr.reporting.list_query import filters_of_view

LISTED = 50
COLUMNS = ("flow", "key", "status", "priority", "created", "why")


@subcommand(
    "list",
    option("filters", nargs="*", metavar="NAME=VALUE", help=f"one of {', '.join(FILTERS)}"),
    option("--view", metavar="NAME", help="the filters of a view of the admin's list that everybody sees"),
    option("--limit", type=positive, default=LISTED, help=f"only so many (default {LISTED})"),
    JSON_LINES,
)
def list_executions(options: Options, out: Any) -> None:
    """executions that match every filter, the newest first, each with why it waits or how it ended

    queue list state=failed flow=letters.tasks.send
    queue list --view "failed letters" --json
    queue list key_prefix=order-10 --limit 500 --json | jq -r .key
    """
    filters = {**_of_view(options["view"]), **dict(read_filter(text) for text in options["filters"])}
    found = executions_matching(filters, bounded=True).defer(*UNBOUNDED).order_by("-pk")
    reasons = explain.reasons()
    rows = ((row, reasons.of(row)) for row in found[: options["limit"]])
    if options["json"]:
        write_json(out, (_as_dict(row, why) for row, why in rows))
        return
    lines = [
        (row.flow, row.key, row.status, PRIORITY_NAMES[row.priority], clock(row.created_at), _line(why))
        for row, why in rows
    ]
    output.show(out, output.table("", COLUMNS, lines))
    if len(lines) == options["limit"]:
        out.write(f"\nthe newest {len(lines)}; --limit shows more, a filter other ones")


def _of_view(name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    view = saved_views.shared_view(saved_views.EXECUTIONS, name)
    try:
        return filters_of_view(view.query)
    except BadInput as error:
        raise BadInput(f"the view {view.name!r} cannot be shown as it was saved: {error}") from None


def _line(why: str) -> str:
    return why.partition("\n")[0]


def _as_dict(row: Execution, why: str) -> dict[str, Any]:
    return {
        "id": row.pk, "flow": row.flow, "key": row.key, "status": row.status, "phase": row.phase,
        "step": row.step, "priority": PRIORITY_NAMES[row.priority], "created": row.created_at,
        "finished": row.finished_at, "error_kind": row.error_kind, "why": why,
    }  # fmt: skip
