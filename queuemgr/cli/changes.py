from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Q, QuerySet

from queuemgr.base.safe_text import as_json
from queuemgr.cli.config_options import positive
from queuemgr.cli.output import show, table
from queuemgr.cli.replay import moment
from queuemgr.models import AuditEntry
from queuemgr.operations import audit_log

NAME = "changes"
HELP = "what people changed: who, when, through what, before and after, and why; the newest last"
EXAMPLES = """
  queue changes
  queue changes --target host: --since "2026-11-28 06:00"
  queue changes --actor ann --action "edit limit" --limit 5
  queue changes --json --limit 1000000 | jq -r '[.at, .actor, .action, .target] | @tsv'
  queue changes --csv --since 2026-11-01 --limit 1000000 > november.csv
  exit codes: 0 shown (also when there is nothing), 3 not understood
"""

SHOWN = 50


def add_arguments(parser: Any) -> None:
    parser.add_argument("--actor", help="only what this person changed")
    parser.add_argument("--action", help="only this kind of change, as pause or edit limit")
    parser.add_argument("--target", help="only what begins so: a queue, a limit, flow/key")
    parser.add_argument("--words", help="only with these words in the reason")
    parser.add_argument("--since", type=moment, help="made since, UTC, as 2026-11-28 06:00")
    parser.add_argument("--until", type=moment, help="made before, UTC")
    parser.add_argument(
        "--limit", type=positive, default=SHOWN, help=f"the newest so many (default {SHOWN})"
    )
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--json", action="store_true", help="JSON Lines, stable names")
    files.add_argument("--csv", action="store_true", help="comma-separated, with a head")


def run(options: dict[str, Any], out: Any) -> int:
    newest = _chosen(options).order_by("-pk")[: options["limit"]]
    rows = audit_log.as_dict(AuditEntry.objects.filter(pk__in=newest.values("pk")).order_by("pk"))
    if options["json"]:
        for row in rows:
            out.write(as_json(row))
    elif options["csv"]:
        for line in audit_log.as_csv(rows):
            out.write(line, ending="")
    else:
        show(out, table("", COLUMNS, _lines(rows)))
    return 0


def _chosen(options: dict[str, Any]) -> QuerySet[AuditEntry]:
    words = options["words"]
    found: QuerySet[AuditEntry] = audit_log.with_words(words) if words else AuditEntry.objects.all()
    if options["target"]:
        found = found.filter(audit_log.begins("target", options["target"]))
    exact = {"actor": options["actor"], "action": options["action"]}
    times = {"at__gte": options["since"], "at__lt": options["until"]}
    return found.filter(Q(**{name: value for name, value in {**exact, **times}.items() if value}))


COLUMNS = ("id", "at", "who", "through", "did", "what", "before", "after", "why")


def _lines(rows: Iterator[dict[str, Any]]) -> Iterator[list[Any]]:
    for row in rows:
        was, became = audit_log.in_words(row["before"]), audit_log.in_words(row["after"])
        at = f"{row['at']:%Y-%m-%d %H:%M:%S}"
        yield [
            row["id"], at, row["actor"], row["source"], row["action"], row["target"], was, became,
            row["reason"],
        ]  # fmt: skip
