"""`queue search`: whatever has this text in its name."""

from __future__ import annotations

from typing import Any

from queuemgr.cli import output
from queuemgr.cli.arguments import JSON_LINES
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.reporting import search as everything
from queuemgr.reporting.search.found import Found


@subcommand("search", option("text", help="any part of it"), JSON_LINES)
def search(options: Options, out: Any) -> None:
    """executions, failures, limits, workers, batches and what applications add, by any part of a name

    queue search 10.1234/abc
    queue search "connection refused" --json | jq -r .text
    """
    groups = everything.search(options["text"], may=lambda permission: True)
    rows = [(group.kind, each) for group in groups for each in group.found]
    facts = ({"kind": kind, "text": each.text, "detail": each.detail, "id": _id(each)} for kind, each in rows)
    cells = ((kind, each.text, each.detail) for kind, each in rows)
    output.listing(out, facts if options["json"] else None, ("kind", "name", ""), cells)
    for group in () if options["json"] else groups:
        if note := group.problem or ("there are more" if group.more else ""):
            out.write(f"{group.kind}: {note}")


def _id(found: Found) -> Any:
    """Of its row, if it leads to that of one."""
    return found.args[0] if found.args else None
