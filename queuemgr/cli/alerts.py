"""`queue alerts`: alarms that are sent out, silences, and tests of destinations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queuemgr.base.safe_text import as_json
from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.arguments import JSON_LINES, JSON_OBJECT, REASON, TIME_FORMAT, ahead, row_id
from queuemgr.cli.exit_codes import FINE, SOME_FAILED
from queuemgr.cli.output import by_command, clock, listing, show, table
from queuemgr.cli.subcommands import Options, group, option, subcommand
from queuemgr.operations import alert_delivery, alert_state, alerts
from queuemgr.reporting import alerts as report

group("alerts", "alerts: the dashboard's alarms by e-mail, webhook and chat; silences, and tests")


@subcommand("alerts list", JSON_OBJECT)
def list_all(options: Options, out: Any) -> None:
    """alarms that stand, how their messages went, silences in force, and destinations

    queue alerts list
    queue alerts list --json | jq -r '.alerts[].alert'
    """
    found = {
        "alerts": report.standing(), "silences": report.silences(database_now()),
        "destinations": report.destinations(),
    }  # fmt: skip
    if options["json"]:
        out.write(as_json(found))
        return
    columns = ["alert", "level", "since", "sent", "text"]
    show(out, table("Alerts", columns, map(_row, found["alerts"])))
    rows = ([s["id"], s["pattern"], clock(s["until"]), s["by"], s["reason"]] for s in found["silences"])
    show(out, table("\nSilences", ["id", "pattern", "until", "by", "reason"], rows))
    places = ([each["destination"], each["kind"], each["place"]] for each in found["destinations"])
    show(out, table("\nDestinations", ["destination", "kind", "host"], places))


def _row(row: Mapping[str, Any]) -> list[Any]:
    notices = row["notices"]
    sent = ", ".join(f"{each['destination']} {each['problem'] or each['state']}" for each in notices)
    return [row["alert"], row["level"], clock(row["since"]), sent or "nothing yet", row["text"]]


@subcommand(
    "alerts test", option("destination", nargs="?", default="", help="(default all)"), REASON, JSON_LINES
)
def test(options: Options, out: Any) -> int:
    """send a test to every destination, or to one, from this process; exit code 2 if one did not take it

    queue alerts test
    queue alerts test chat --json
    """
    tested = alerts.send_test(by_command(options["reason"]), options["destination"])
    facts = [each._asdict() for each in tested] if options["json"] else None
    rows = ([each.destination, each.kind, each.place, each.problem or "accepted"] for each in tested)
    listing(out, facts, ["destination", "kind", "host", "answer"], rows)
    return SOME_FAILED if any(each.problem for each in tested) else FINE


@subcommand(
    "alerts silence",
    option("pattern", help="an alert's code, * for any characters"),
    option("--until", type=ahead, required=True, help=TIME_FORMAT),
    option("--reason", required=True, help="reason (recorded in the audit log)"),
    JSON_OBJECT,
)
def silence(options: Options, out: Any) -> None:
    """send nothing of these alarms until then; those that stand by then are sent

    queue alerts silence "breaker open: host:*" --until 2h --reason "the provider is migrating"
    """
    row = alerts.silence(options["pattern"], options["until"], by_command(options["reason"]))
    if options["json"]:
        out.write(as_json({"id": row.pk, "pattern": row.pattern, "until": row.until}))
    else:
        out.write(f"silence {row.pk}: nothing is sent of {row.pattern} until {clock(row.until)}")


@subcommand("alerts unsilence", option("id", type=row_id, help="the silence's id"), REASON, JSON_OBJECT)
def unsilence(options: Options, out: Any) -> None:
    """end a silence now

    queue alerts unsilence 3
    """
    row = alerts.unsilence(options["id"], by_command(options["reason"]))
    out.write(
        as_json({"id": row.pk, "until": row.until}) if options["json"] else f"silence {row.pk} has ended"
    )


@subcommand("alerts send", JSON_OBJECT)
def send(options: Options, out: Any) -> None:
    """look at the alarms and send what is due, from this process: in a cron job it also says that no worker
    is live

    queue alerts send
    * * * * *  manage.py queue alerts send
    """
    found = alert_state.follow() if alert_delivery.destinations() else 0
    sent = alert_delivery.send_due()
    said = {"found": found, "sent": sent}
    out.write(as_json(said) if options["json"] else f"{found} alarms stand, {sent} messages were sent")
