"""`queue audit` and `queue undo`."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from queuemgr.base import sql
from queuemgr.base.errors import BadInput
from queuemgr.base.safe_text import as_json
from queuemgr.cli.arguments import FLOW_OF_KEY, JSON_OBJECT, REASON, TIME_FORMAT, past, positive
from queuemgr.cli.output import by_command, show, table, write_csv, write_json
from queuemgr.cli.show import find
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.models import AuditEntry
from queuemgr.operations import audit_log
from queuemgr.operations.undo import last_undoable, undo

DEFAULT_LIMIT = 50


def _add_formats(parser: Any) -> None:
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="JSON Lines, stable names")
    formats.add_argument("--csv", action="store_true", help="comma-separated, with a header")


@subcommand(
    "audit",
    option("--actor", help="only changes by this user"),
    option("--action", help="only this action, such as pause or edit limit"),
    option("--target", help="only targets with this prefix: a queue, limit or flow/key"),
    option("--words", help="only reasons that contain these words"),
    option("--since", type=past, help=f"only entries since ({TIME_FORMAT})"),
    option("--until", type=past, help="only entries before"),
    option(
        "--limit", type=positive, default=DEFAULT_LIMIT,
        help=f"maximum number of entries (default {DEFAULT_LIMIT})",
    ),
    _add_formats,
)  # fmt: skip
def audit(options: Options, out: Any) -> None:
    """the audit log: who changed what, when, from where, before, after and why; newest last

    queue audit
    queue audit --target host: --since "2026-11-28 06:00"
    queue audit --actor ann --action "edit limit" --limit 5
    queue audit --json --limit 1000000 | jq -r '[.at, .actor, .action, .target] | @tsv'
    queue audit --csv --since 2026-11-01 --limit 1000000 > november.csv
    exit codes: 0 shown (also when there are no entries), 3 invalid filter
    """
    newest = _matching(options).order_by("-pk")[: options["limit"]]
    rows = audit_log.as_dict(AuditEntry.objects.filter(pk__in=newest.values("pk")).order_by("pk"))
    if options["json"]:
        write_json(out, rows)
    elif options["csv"]:
        write_csv(out, audit_log.as_csv(rows))
    else:
        show(out, table("", COLUMNS, map(_row, rows)))


def _matching(options: Options) -> QuerySet[AuditEntry]:
    words = options["words"]
    found: QuerySet[AuditEntry] = audit_log.with_words(words) if words else AuditEntry.objects.all()
    if options["target"]:
        found = found.filter(sql.starts_with("target", options["target"]))
    exact = {"actor": options["actor"], "action": options["action"]}
    times = {"at__gte": options["since"], "at__lt": options["until"]}
    return found.filter(Q(**{name: value for name, value in {**exact, **times}.items() if value}))


COLUMNS = ("id", "at", "actor", "source", "action", "target", "before", "after", "reason")


def _row(entry: dict[str, Any]) -> list[Any]:
    words = {name: audit_log.in_words(entry[name]) for name in ("before", "after")}
    text = {**entry, **words, "at": f"{entry['at']:%Y-%m-%d %H:%M:%S}"}
    return [text[column] for column in COLUMNS]


@subcommand(
    "undo",
    option("id", type=positive, nargs="?", help="the audit entry's number in `queue audit`"),
    option("--execution", metavar="KEY", help="instead: its last cancellation or change of priority"),
    FLOW_OF_KEY,
    REASON,
    JSON_OBJECT,
)
def undo_change(options: Options, out: Any) -> None:
    """undo one change of a limit, pause, queue, retry policy or priority, or a cancellation before a start

    queue audit --actor ann --since "2026-11-28 06:00"
    queue undo 1042 --reason "meant for another host"
    queue undo --execution order-1001
    exit codes: 0 undone, 3 refused (what has changed since, and by whom)
    """
    if bool(options["id"]) == bool(options["execution"]):
        raise BadInput("give the number of an audit entry, or --execution KEY")
    entry = AuditEntry.objects.filter(pk=options["id"] or 0).first()
    if options["execution"]:
        entry = last_undoable(find(options["execution"], options["flow"]))
    if entry is None:
        raise BadInput(f"there is no audit entry {options['id']}; `queue audit` lists them")
    undone = undo(entry, by_command(options["reason"]))
    if options["json"]:
        out.write(as_json({"undone": entry.pk, "audit_entry": undone.pk, "bulk_action": undone.action_id}))
        return
    result = f"undone (audit entry {undone.pk}): {undone.target}: {audit_log.in_words(undone.after)}"
    if undone.action_id:
        result = (
            f"is being undone in the background by {undone.target} (audit entry {undone.pk}); "
            f"`queue bulk show {undone.action_id} --watch` shows progress"
        )
    out.write(f"audit entry {entry.pk} {result}")
