from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.cli.limits import clock
from queuemgr.cli.output import by_command, show, table
from queuemgr.flows.flow import all_phases
from queuemgr.models import Limit
from queuemgr.operations import controls
from queuemgr.reporting import explain, stats
from queuemgr.scheduling.limit_input import limit_to_edit, no_limit, parse_limit_field, validate
from queuemgr.scheduling.limit_rows import LIMIT_FIELDS

NAME = "limit"
HELP = "one limit: its figures, its use and who waits on it; or set figures of it"
EXAMPLES = """
  queue limit host:arxiv.org:443
  queue limit phase:expensive --max-running 60 --reason "the new account allows it"
  queue limit "host:*" --rate "1/3s burst 2" --breaker-after 3
  queue limit fleet --daily-budget none
"""


def add_arguments(parser: Any) -> None:
    parser.add_argument(
        "name", help="fleet, phase:prep, host:arxiv.org:443, host:*, tenant:acme, cpu"
    )
    for figure in LIMIT_FIELDS:
        field: Any = Limit._meta.get_field(figure)
        about = str(field.help_text or "weight that may run at once").replace("%", "%%")
        parser.add_argument(f"--{figure.replace('_', '-')}", metavar="VALUE", help=about)
    parser.add_argument("--reason", default="", help="why, for the record")
    parser.add_argument("--json", action="store_true", help="one JSON object, stable names")


def run(options: dict[str, Any], out: Any) -> int:
    name = _in_full(options["name"])
    given = {figure: options[figure] for figure in LIMIT_FIELDS if options[figure] is not None}
    if given:
        _edit(name, given, options["reason"], out)
    if options["json"] or not given:
        _show(_looked_up(name), options, out)
    return 0


def _in_full(name: str) -> str:
    """A phase may be named by its name alone, as in `queue pause`."""
    return f"phase:{name}" if name in all_phases() else name


def _edit(name: str, given: dict[str, str], reason: str, out: Any) -> None:
    figures = {figure: parse_limit_field(name, figure, text) for figure, text in given.items()}
    limit = limit_to_edit(name)
    for figure, value in figures.items():
        setattr(limit, figure, value)
    validate(limit)
    pattern = "" if limit.pk else stats.pattern_of(name)
    controls.edit_limit(name, by_command(reason), **figures)
    said = ", ".join(f"{figure}={given[figure]}" for figure in figures)
    note = f" (a row of its own, which began with the figures of {pattern})" if pattern else ""
    out.write(f"{name}: {said}{note}")


def _looked_up(name: str) -> dict[str, Any]:
    found = stats.limit(name)
    if found is None:
        raise BadInput(no_limit(name))
    stopped = [s for s in explain.what_stops_work() if s.limit == name]
    return {**found, "waiting_on_it": [stats.vars_of(s) for s in stopped]}


def _show(facts: dict[str, Any], options: dict[str, Any], out: Any) -> None:
    if options["json"]:
        out.write(as_json(facts))
        return
    waits = facts.pop("waiting_on_it")
    show(out, table("", ["", ""], _shown(facts)))
    rows = ([w["waiting"], w["reason"], clock(w["until"])] for w in waits)
    show(out, table("\nWaiting on it", ["waiting", "because", "until"], rows))


def _shown(facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        if value not in (None, ""):
            yield name.replace("_", " "), value
