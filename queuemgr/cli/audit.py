from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Q, QuerySet

from queuemgr.base import sql
from queuemgr.base.safe_text import as_json
from queuemgr.cli.arguments import TIME_FORMAT, positive, timestamp
from queuemgr.cli.output import show, table
from queuemgr.models import AuditEntry
from queuemgr.operations import audit_log

NAME = "audit"
HELP = "the audit log: who changed what, when, from where, before, after and why; newest last"
EXAMPLES = """
  queue audit
  queue audit --target host: --since "2026-11-28 06:00"
  queue audit --actor ann --action "edit limit" --limit 5
  queue audit --json --limit 1000000 | jq -r '[.at, .actor, .action, .target] | @tsv'
  queue audit --csv --since 2026-11-01 --limit 1000000 > november.csv
  exit codes: 0 shown (also when there are no entries), 3 invalid filter
"""

DEFAULT_LIMIT = 50


def add_arguments(parser: Any) -> None:
    parser.add_argument("--actor", help="only changes by this user")
    parser.add_argument("--action", help="only this action, such as pause or edit limit")
    parser.add_argument("--target", help="only targets with this prefix: a queue, limit or flow/key")
    parser.add_argument("--words", help="only reasons that contain these words")
    parser.add_argument("--since", type=timestamp, help=f"only entries since ({TIME_FORMAT})")
    parser.add_argument("--until", type=timestamp, help="only entries before")
    parser.add_argument(
        "--limit", type=positive, default=DEFAULT_LIMIT,
        help=f"maximum number of entries (default {DEFAULT_LIMIT})",
    )  # fmt: skip
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--json", action="store_true", help="JSON Lines, stable names")
    files.add_argument("--csv", action="store_true", help="comma-separated, with a header")


def run(options: dict[str, Any], out: Any) -> int:
    newest = _matching(options).order_by("-pk")[: options["limit"]]
    rows = audit_log.as_dict(AuditEntry.objects.filter(pk__in=newest.values("pk")).order_by("pk"))
    if options["json"]:
        for row in rows:
            out.write(as_json(row))
    elif options["csv"]:
        for line in audit_log.as_csv(rows):
            out.write(line, ending="")
    else:
        show(out, table("", COLUMNS, _table_rows(rows)))
    return 0


def _matching(options: dict[str, Any]) -> QuerySet[AuditEntry]:
    words = options["words"]
    found: QuerySet[AuditEntry] = audit_log.with_words(words) if words else AuditEntry.objects.all()
    if options["target"]:
        found = found.filter(sql.starts_with("target", options["target"]))
    exact = {"actor": options["actor"], "action": options["action"]}
    times = {"at__gte": options["since"], "at__lt": options["until"]}
    return found.filter(Q(**{name: value for name, value in {**exact, **times}.items() if value}))


COLUMNS = ("id", "at", "actor", "source", "action", "target", "before", "after", "reason")


def _table_rows(entries: Iterator[dict[str, Any]]) -> Iterator[list[Any]]:
    for entry in entries:
        text = {
            **entry,
            "at": f"{entry['at']:%Y-%m-%d %H:%M:%S}",
            "before": audit_log.in_words(entry["before"]),
            "after": audit_log.in_words(entry["after"]),
        }
        yield [text[column] for column in COLUMNS]
