"""`queue webhook`: who is notified of the ends of work, and how that goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queuemgr.base.safe_text import as_json
from queuemgr.base.webhook_signature import new_secret
from queuemgr.cli.arguments import JSON_LINES, JSON_OBJECT, REASON
from queuemgr.cli.output import by_command, clock, listing, show, show_fields, table
from queuemgr.cli.pausing import MINUTES, end_of_pause
from queuemgr.cli.subcommands import Options, given, group, option, subcommand
from queuemgr.lifecycle.webhook_events import FLOW
from queuemgr.models import WebhookEvent
from queuemgr.operations import webhooks
from queuemgr.reporting import webhooks as report

NAME = option("name", help="the webhook's name")
FIELDS = (
    option("--flow", action="append", dest="flows", help="a flow, or a pattern as 'shop.*' (default all)"),
    option("--event", action="append", dest="events", choices=WebhookEvent.values, help="(default failed)"),
    option("--secret-name", help="its entry in SLUICE_WEBHOOK_SECRETS (default the webhook's name)"),
    option("--allow-private", action="store_true", default=None, help="private addresses and http, too"),
    option("--include-result", action="store_true", default=None, help="send what the work returned, too"),
    option("--description", help="what it is for"),
)
SET = ("flows", "events", "secret_name", "allow_private", "include_result", "description")

group("webhook", "webhooks: addresses that are notified when work ends, and how their deliveries go")


@subcommand("webhook list", JSON_LINES)
def list_all(options: Options, out: Any) -> None:
    """every webhook: what it is notified of, whether it is paused, deliveries that wait and that failed

    queue webhook list
    queue webhook list --json | jq -r 'select(.state != "in force") | .webhook'
    """
    rows = report.listed()
    columns = ["webhook", "url", "flows", "events", "state", "waiting", "failed"]
    listing(out, rows if options["json"] else None, columns, map(_row, rows))


def _row(row: Mapping[str, Any]) -> list[Any]:
    return [
        row["webhook"], row["url"], " ".join(row["flows"]), " ".join(row["events"]),
        row["paused"] or row["state"], row["waiting"], row["failed"],
    ]  # fmt: skip


@subcommand("webhook show", NAME, JSON_OBJECT)
def show_one(options: Options, out: Any) -> None:
    """one webhook: its fields and its last deliveries

    queue webhook show billing
    queue webhook show billing --json | jq '.deliveries[0]'
    """
    shown = report.shown(webhooks.find(options["name"]))
    if options["json"]:
        out.write(as_json(shown))
        return
    deliveries = shown.pop("deliveries")
    lists = {name: " ".join(shown[name]) for name in ("flows", "events")}
    show_fields(out, {**shown, **lists})
    rows = ([each["key"], each["state"], clock(each["ended_at"]), each["error"] or ""] for each in deliveries)
    show(out, table("\nLast deliveries", ["key", "state", "ended", "error"], rows))


@subcommand("webhook secret", JSON_OBJECT)
def secret(options: Options, out: Any) -> None:
    """a new secret, for an entry in SLUICE_WEBHOOK_SECRETS; it is stored nowhere

    queue webhook secret
    SLUICE_WEBHOOK_SECRETS="billing=$(queue webhook secret)"
    """
    made = new_secret()
    out.say(made, secret=made)


@subcommand("webhook add", NAME, option("url", help="https://…"), *FIELDS, REASON, JSON_OBJECT)
def add(options: Options, out: Any) -> None:
    """make a webhook, notified of what ends from now on

    queue webhook add billing https://billing.example/hooks/queue --event finished --event failed
    queue webhook add ops https://ops.example/hook --flow "shop.*" --reason "on call since May"
    """
    row = webhooks.add(options["name"], options["url"], by_command(options["reason"]), **given(options, SET))
    said = f"webhook {row.name} added, to be signed with {row.secret} of SLUICE_WEBHOOK_SECRETS"
    out.say(said, webhook=row.name, secret_name=row.secret)


@subcommand(
    "webhook edit",
    NAME,
    option("--url", help="a new address, also for deliveries that wait"),
    *FIELDS,
    option("--public-only", action="store_true", help="no private addresses, and no http"),
    REASON,
    JSON_OBJECT,
)
def edit(options: Options, out: Any) -> None:
    """set fields of a webhook

    queue webhook edit billing --url https://billing.example/v2/hooks --reason "they moved"
    queue webhook edit billing --event failed --event cancelled
    """
    values = given(options, SET) | ({"url": options["url"]} if options["url"] else {})
    values |= {"allow_private": False} if options["public_only"] else {}
    row = webhooks.edit(options["name"], by_command(options["reason"]), **values)
    said = f"webhook {row.name}: {row.events} of {row.flows}"
    out.say(said, webhook=row.name, events=row.events.split(), flows=row.flows.split())


@subcommand("webhook pause", NAME, MINUTES, REASON, JSON_OBJECT)
def pause(options: Options, out: Any) -> None:
    """send it nothing until it is resumed: what ends meanwhile is not delivered later

    queue webhook pause billing --reason "they are migrating"
    queue pause webhook:billing.example:443     holds deliveries back instead
    """
    webhooks.pause(options["name"], by_command(options["reason"]), end_of_pause(options))
    out.say(f"webhook {options['name']} paused", webhook=options["name"], paused=True)


@subcommand("webhook resume", NAME, REASON, JSON_OBJECT)
def resume(options: Options, out: Any) -> None:
    """notify it of what ends from now on

    queue webhook resume billing
    """
    webhooks.resume(options["name"], by_command(options["reason"]))
    out.say(f"webhook {options['name']} resumed", webhook=options["name"], paused=False)


@subcommand("webhook remove", NAME, REASON, JSON_OBJECT)
def remove(options: Options, out: Any) -> None:
    """delete a webhook; deliveries that wait are skipped

    queue webhook remove billing --reason "replaced by ops"
    """
    webhooks.remove(options["name"], by_command(options["reason"]))
    out.say(f"webhook {options['name']} removed", removed=options["name"])


@subcommand("webhook test", NAME, REASON, JSON_OBJECT)
def test(options: Options, out: Any) -> None:
    """send it a test, as an execution like any delivery

    queue webhook test billing
    queue show "$(queue webhook test billing --json | jq -r .key)" --flow queue.webhook
    """
    key = webhooks.send_test(options["name"], by_command(options["reason"]))
    if options["json"]:
        out.write(as_json({"webhook": options["name"], "flow": FLOW, "key": key}))
    else:
        out.write(f"test of {options['name']} enqueued as {FLOW}/{key}")
