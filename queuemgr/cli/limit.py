from __future__ import annotations

from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.cli.arguments import add_reason
from queuemgr.cli.limits import clock
from queuemgr.cli.output import by_command, show, table
from queuemgr.flows.flow import all_phases
from queuemgr.models import Limit
from queuemgr.operations import controls
from queuemgr.reporting import explain, stats
from queuemgr.scheduling.limit_input import limit_to_edit, no_limit, parse_limit_field, validate
from queuemgr.scheduling.limit_rows import LIMIT_FIELDS, pattern_of

NAME = "limit"
HELP = "show one limit: its fields, its usage and what waits on it; or change its fields"
EXAMPLES = """
  queue limit host:api.example.org:443
  queue limit phase:{phase} --max-running 60 --reason "the new account allows it"
  queue limit "host:*" --rate "1/3s burst 2" --breaker-after 3
  queue limit fleet --daily-budget none
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument("name", help="fleet, phase:NAME, host:api.example.org:443, host:*, tenant:acme, cpu")
    for name in LIMIT_FIELDS:
        field: Any = Limit._meta.get_field(name)
        about = str(field.help_text or "weight that may run at once").replace("%", "%%")
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="VALUE", help=about)
    add_reason(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object, stable names")


def run(options: dict[str, Any], out: Any) -> int:
    name = _full_name(options["name"])
    given = {field: options[field] for field in LIMIT_FIELDS if options[field] is not None}
    if given:
        _edit(name, given, options["reason"], out)
    if options["json"] or not given:
        _show(_find(name), options, out)
    return 0


def _full_name(name: str) -> str:
    """A phase may be given by its name alone, as in `queue pause`."""
    return f"phase:{name}" if name in all_phases() else name


def _edit(name: str, given: dict[str, str], reason: str, out: Any) -> None:
    values = {field: parse_limit_field(name, field, text) for field, text in given.items()}
    limit = limit_to_edit(name)
    for field, value in values.items():
        setattr(limit, field, value)
    validate(limit)
    pattern = "" if limit.pk else pattern_of(name)
    controls.edit_limit(name, by_command(reason), **values)
    changed = ", ".join(f"{field}={text}" for field, text in given.items())
    note = f" (a new row, with the other fields copied from {pattern})" if pattern else ""
    out.write(f"{name}: {changed}{note}")


def _find(name: str) -> dict[str, Any]:
    found = stats.limit(name)
    if found is None:
        raise BadInput(no_limit(name))
    stopped = [s for s in explain.what_stops_work() if s.limit == name]
    return {**found, "waiting_on_it": [stats.serialize(s) for s in stopped]}


def _show(limit: dict[str, Any], options: dict[str, Any], out: Any) -> None:
    if options["json"]:
        out.write(as_json(limit))
        return
    waits = limit.pop("waiting_on_it")
    rows = [(n.replace("_", " "), value) for n, value in limit.items() if value not in (None, "")]
    show(out, table("", ["", ""], rows))
    waiting = ([w["waiting"], w["reason"], clock(w["until"])] for w in waits)
    show(out, table("\nWaiting on it", ["waiting", "reason", "until"], waiting))
