"""`queue pause`, `resume`, `limits`, `limit` and `policy`: showing what governs work, and changing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.base.meters import meter_or_plain
from queuemgr.base.safe_text import as_json
from queuemgr.cli.arguments import JSON_LINES, JSON_OBJECT, REASON
from queuemgr.cli.output import Table, by_command, clock, show, show_fields, table, write_json
from queuemgr.cli.pausing import MINUTES, end_of_pause
from queuemgr.cli.subcommands import Options, given, option, subcommand
from queuemgr.flows.flow import all_phases
from queuemgr.flows.retry_policy import Policy, backoff
from queuemgr.models import LIMIT_FIELDS, RetryPolicy
from queuemgr.operations import controls
from queuemgr.operations.limit_names import UnknownLimit, limit_to_edit, why_none
from queuemgr.reporting import stats
from queuemgr.scheduling import limit_input, limit_rows, retry_policies
from queuemgr.scheduling.decision_input import half_open_text, open_text
from queuemgr.scheduling.limit_rows import pattern_of

POLICY_FIELDS = {
    "max_attempts": "maximum number of attempts, with the first",
    "base": "seconds before the second attempt; doubles each time",
    "ceiling": "maximum wait before jitter, in seconds",
    "jitter": "maximum random seconds added to each wait",
}


NEW = option("--new", action="store_true", help="also a limit that no flow uses yet")


@contextmanager
def _or_new() -> Iterator[None]:
    try:
        yield
    except UnknownLimit as error:
        raise BadInput(f"{error}; --new makes a limit of this name all the same") from None


@subcommand(
    "pause",
    option("target", help="everything, a queue (PHASE.low), a phase, a limit (host:…)"),
    MINUTES,
    NEW,
    option("--reason", default="", help="reason (recorded, and shown for what waits on it)"),
    JSON_OBJECT,
)
def pause(options: Options, out: Any) -> None:
    """pause a queue, a limit, a phase or everything: nothing more starts, running work continues

    queue pause everything --reason "moving the database"
    queue pause {phase}.low
    queue pause host:api.example.org:443 --minutes 30 --reason "they asked us to"
    """
    until = end_of_pause(options)
    with _or_new():
        controls.pause(options["target"], by_command(options["reason"]), until, new=options["new"])
    out.say(f"{options['target']} paused", paused=options["target"], until=until)


@subcommand(
    "resume", option("target", help="what is paused, or a limit whose breaker is open"), REASON, JSON_OBJECT
)
def resume(options: Options, out: Any) -> None:
    """end a pause, or close the breaker of a limit and forget what its provider said is left

    queue resume everything
    queue resume {phase}.low --reason "disk replaced"
    queue resume host:api.example.org:443
    """
    controls.resume(options["target"], by_command(options["reason"]))
    out.say(f"{options['target']} resumed", resumed=options["target"])


@subcommand("limits", JSON_LINES)
def limits(options: Options, out: Any) -> None:
    """every limit: usage, rate, allowances, whether its breaker is open or it is paused, and what its
    provider says is left

    queue limits
    queue limits --json | jq -r '.limit as $of | .allowances[] | [$of, .allowance, .left / .scale] | @tsv'
    queue limits --json | jq -r '.limit as $of | .allowances[] | [$of, .forecast.runs_out_at] | @tsv'
    queue limits --json | jq -r 'select(.open_until != null) | .limit'
    """
    rows = stats.limits()
    if options["json"]:
        write_json(out, rows)
    else:
        show(out, limits_table("", rows))


def limits_table(title: str, limits: Iterable[Mapping[str, Any]]) -> Table:
    """Limits as a table, one row each."""
    columns = ["limit", "running", "of", "reserved for high", "rate", "allowances", "state"]
    rows = list(map(_limit_row, limits))
    if not any(row[-2] for row in rows):  # most installations have none
        columns, rows = [*columns[:-2], columns[-1]], [[*row[:-2], row[-1]] for row in rows]
    return table(title, columns, rows)


def _limit_row(limit: Mapping[str, Any]) -> list[Any]:
    return [
        limit["limit"], limit["running"], limit["max_running"] or "no cap", limit["reserved_high"],
        limit["rate"], _allowances(limit), _state(limit),
    ]  # fmt: skip


def _allowances(limit: Mapping[str, Any]) -> str:
    """The one nearest its end, and how many more there are; of a pattern, each of whose keys has its own, the
    first as it is stated."""
    if not (found := limit["allowances"]):
        return ""
    more = f"\n+{len(found) - 1} more" if len(found) > 1 else ""
    if limit["limit"].endswith("*"):
        return f"{found[0]['allowance']} each{more}"
    fullest = max(found, key=lambda a: (a["used"] + a["reserved"]) / a["amount"] if a["amount"] else 1)
    return f"{fullest['text']}{more}"


def _state(limit: Mapping[str, Any]) -> str:
    parts = [limit["paused"]] if limit["paused"] else []
    if limit["open_until"]:
        parts.append(open_text(clock(limit["open_until"]), limit["open_reason"]))
    if limit["half_open_starts"]:
        parts.append(half_open_text(limit["half_open_starts"], limit["open_reason"]))
    parts += [each["text"] for each in limit["provider"]]
    return "; ".join(parts)


def _add_fields(parser: Any) -> None:
    for name, field in LIMIT_FIELDS.items():
        about = field.meaning.replace("%", "%%")
        parser.add_argument(f"--{name.replace('_', '-')}", metavar=field.unit.upper(), help=about)


@subcommand(
    "limit",
    option("name", help="fleet, phase:NAME, host:api.example.org:443, host:*, tenant:acme, cpu"),
    _add_fields,
    NEW,
    REASON,
    JSON_OBJECT,
)
def limit(options: Options, out: Any) -> None:
    """show one limit: its fields, its usage and what waits on it; or change its fields

    queue limit host:api.example.org:443
    queue limit phase:{phase} --max-running 60 --reason "the new account allows it"
    queue limit "host:*" --rate "1/3s burst 2" --breaker-after 3
    queue limit fleet --daily-budget none
    queue limit openai:gpt --allowances "30,000 tokens/minute; 20 usd/day in Europe/Berlin" --new
    queue limit "tenant:*" --allowances "5 usd/day"
    queue limit openai:gpt --allowances none
    """
    name = options["name"]
    name = f"phase:{name}" if name in all_phases() else name  # as in `queue pause`
    changes = given(options, LIMIT_FIELDS)
    if changes:
        _edit(name, changes, options, out)
    if options["json"] or not changes:
        _show_limit(name, options["json"], out)


def _edit(name: str, changes: dict[str, str], options: Options, out: Any) -> None:
    values = {field: limit_input.parse_limit_field(name, field, text) for field, text in changes.items()}
    with _or_new():
        row = limit_to_edit(name, new=options["new"])
    limit_input.validate(row, values)
    pattern = "" if row.pk else pattern_of(name)
    controls.edit_limit(name, by_command(options["reason"]), new=options["new"], **values)
    changed = ", ".join(
        f"{field}={'none' if value in (None, '') else value}" for field, value in values.items()
    )
    note = f" (a new row, with the other fields copied from {pattern})" if pattern else ""
    if not options["json"]:  # the limit as it is now follows
        out.write(f"{name}: {changed}{note}")


def _show_limit(name: str, json: bool, out: Any) -> None:
    limit_rows.ensure()
    limit = stats.limit(name)
    if limit is None:
        raise BadInput(why_none(name))
    if json:
        out.write(as_json(limit))
        return
    waits, allowances, provider = (limit.pop(name) for name in ("waiting_on_it", "allowances", "provider"))
    show_fields(
        out, {**limit, "by_provider": "; ".join(each["text"] for each in provider)} if provider else limit
    )
    if allowances:
        show(out, table("\nAllowances", _ALLOWANCE_COLUMNS, map(_allowance_row, allowances)))
        for ahead in filter(None, (each["forecast"]["text"] for each in allowances)):
            out.write(ahead)
    waiting = ([w["waiting"], w["reason"], clock(w["until"])] for w in waits)
    show(out, table("\nWaiting on it", ["waiting", "reason", "until"], waiting))


_ALLOWANCE_COLUMNS = ("allowance", "used", "reserved", "left", "begins anew or is full", "may exceed it by")


def _allowance_row(allowance: Mapping[str, Any]) -> list[Any]:
    text, most = meter_or_plain(allowance["meter"]).text, allowance["may_exceed_by"]
    return [
        allowance["allowance"], *(text(allowance[name]) for name in ("used", "reserved", "left")),
        clock(allowance["resets_at"] or allowance["full_at"]),
        "not known: work runs" if most is None else text(most),
    ]  # fmt: skip


@subcommand(
    "remove-limit", option("name", help="a limit with a row of its own, such as host:a"), REASON, JSON_OBJECT
)
def remove_limit(options: Options, out: Any) -> None:
    """remove the row of a limit: its pattern applies again, or nothing does

    queue remove-limit host:api.example.org:443 --reason "as all others again"
    refused for a limit that the settings or a flow of this release state
    """
    controls.remove_limit(options["name"], by_command(options["reason"]))
    pattern = pattern_of(options["name"])
    applies = f"; {pattern} applies" if pattern else ""
    out.say(f"{options['name']}: removed{applies}", removed=options["name"], applies=pattern or None)


@subcommand(
    "policy",
    option("kind", help="an error kind: network, timeout, rate_limited, …"),
    option("--phase", default="", help="only in this phase (default: every phase)"),
    *(
        option(f"--{name.replace('_', '-')}", metavar="VALUE", help=about)
        for name, about in POLICY_FIELDS.items()
    ),
    REASON,
    JSON_OBJECT,
)
def policy(options: Options, out: Any) -> None:
    """show the retry policy of an error kind, with the range of each wait; or change it

    queue policy network
    queue policy network --phase {phase} --max-attempts 8 --base 30 --reason "slow to recover"
    queue policy timeout --json
    """
    kind, phase = options["kind"], options["phase"]
    retry_policies.check(kind, phase)
    changes = given(options, POLICY_FIELDS)
    if changes:
        values = {name: limit_input.parse_policy_field(kind, name, text) for name, text in changes.items()}
        row = RetryPolicy.objects.filter(kind=kind, phase=phase).first()
        limit_input.validate(row or retry_policies.new_row(kind, phase), values)
        controls.edit_policy(kind, phase, by_command(options["reason"]), **values)
    _show_policy(kind, phase, retry_policies.policy_for(kind, phase), options["json"], out)


def _show_policy(kind: str, phase: str, policy: Policy, json: bool, out: Any) -> None:
    waits = list(_waits(policy))
    if json:
        out.write(as_json({"kind": kind, "phase": phase or None, **asdict(policy), "waits": waits}))
        return
    where = f" in {phase}" if phase else ""
    meaning = f": {policy.meaning}" if policy.meaning else ""
    out.write(f"{kind}{where}{meaning}")
    out.write(f"at most {policy.max_attempts} attempts" if waits else "never retried")
    rows = ([w["before_attempt"], f"{w['shortest']:g} s", f"{w['longest']:g} s"] for w in waits)
    if waits:
        show(out, table("", ["before attempt", "shortest wait", "longest wait"], rows))


def _waits(policy: Policy) -> Iterator[dict[str, float]]:
    """The wait before each retry, in seconds; a Retry-After replaces the shortest wait."""
    for attempt in range(1, policy.max_attempts):
        shortest = backoff(policy, attempt)
        yield {
            "before_attempt": attempt + 1, "shortest": shortest, "longest": shortest + policy.jitter,
        }  # fmt: skip
