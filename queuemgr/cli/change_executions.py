"""`queue retry`, `retry-failed`, `cancel`, `skip`, `priority` and `reschedule`: changing executions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from django.db.models import Count, Q, QuerySet

from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.cli.arguments import JSON_OBJECT, ONLY_FLOW, REASON, TIME_FORMAT, ahead, natural, positive
from queuemgr.cli.exit_codes import FINE, SOME_FAILED
from queuemgr.cli.output import by_command
from queuemgr.cli.progress_bar import tracked
from queuemgr.cli.show import find
from queuemgr.cli.subcommands import Options, option, subcommand
from queuemgr.flows import payload_validation
from queuemgr.flows.flow import PRIORITIES
from queuemgr.models import NOT_COUNTED_AS_ATTEMPT, Execution, Lease
from queuemgr.operations import bulk, executions
from queuemgr.operations.bulk.actions import ACTIONS
from queuemgr.operations.controls import Actor
from queuemgr.reporting.filtering import executions_matching

KEYS = (
    option("keys", nargs="+", metavar="KEY", help="keys of executions"),
    option("--flow", help="their flow, if several flows have the key"),
    REASON,
    JSON_OBJECT,
)
CHUNK = 500
EXIT_CODES = "exit codes: 0 all changed, 2 some left unchanged (named), 3 refused (nothing changed)"


def _find_all(options: Options) -> list[Execution]:
    """Each once. Raises `BadInput` for an unknown key, before anything is changed."""
    return list(dict.fromkeys(find(key, options["flow"]) for key in options["keys"]))


def _check_reason(action: str, options: Options) -> None:
    bulk.check_reason(ACTIONS[action], options["reason"])


def _change_each(options: Options, out: Any, change: Callable[[Execution], int], done: str) -> int:
    """Call `change` for each execution, one by one, and name those left unchanged."""
    chosen = _find_all(options)
    unchanged = [execution for execution in chosen if not change(execution)]
    return _say_changed([each for each in chosen if each not in unchanged], unchanged, out, done)


def _say_changed(changed: Sequence[Execution], unchanged: Sequence[Execution], out: Any, done: str) -> int:
    """Name what was changed, and what was not with the reason; returns the exit code."""
    why = {execution: _why_unchanged(execution) for execution in unchanged}
    for execution, reason in () if out.json else why.items():
        out.write(f"{execution.key} left unchanged: it is {reason}")
    out.say(
        f"{len(changed)} {done}, {len(unchanged)} left unchanged",
        changed=len(changed), keys=[each.key for each in changed], ids=[each.pk for each in changed],
        unchanged={_name_among(each, unchanged): reason for each, reason in why.items()},
    )  # fmt: skip
    return SOME_FAILED if unchanged else FINE


def _why_unchanged(execution: Execution) -> str:
    execution.refresh_from_db()
    if Lease.objects.filter(execution=execution).exclude(cancel_requested_by="").exists():
        return f"{execution.status}, and its cancellation was requested before"
    return execution.status


def _name_among(execution: Execution, all_of_them: Sequence[Execution]) -> str:
    """Its key; with its flow where another has the same."""
    return str(execution) if [each.key for each in all_of_them].count(execution.key) > 1 else execution.key


@subcommand("cancel", *KEYS, notes=EXIT_CODES)
def cancel(options: Options, out: Any) -> int:
    """cancel executions: waiting ones at once, running ones when their worker polls (seconds)

    queue cancel order-1001 --reason "wrong order"
    queue undo --execution order-1001            puts it back, if it had not started
    """
    _find_all(options)
    _check_reason("cancel", options)
    by = by_command(options["reason"])
    return _change_each(options, out, lambda one: executions.cancel([one], by), "cancelled")


@subcommand("skip", *KEYS, notes=EXIT_CODES)
def skip(options: Options, out: Any) -> int:
    """skip waiting or failed executions: they end without being done

    queue skip order-1001 --reason "withdrawn by the customer"
    running, done and cancelled executions are left unchanged; `queue retry` retries skipped ones
    """
    _check_reason("skip", options)
    by = by_command(options["reason"])
    return _change_each(options, out, lambda one: executions.skip([one], by), "skipped")


@subcommand(
    "priority", option("priority", choices=PRIORITIES, help="high, normal or low"), *KEYS, notes=EXIT_CODES
)
def priority(options: Options, out: Any) -> int:
    """change the priority of executions; running ones continue and keep their slot

    queue priority high order-1001 order-1002 --reason "asked for today"
    """
    by, rank = by_command(options["reason"]), PRIORITIES[options["priority"]]
    return _change_each(options, out, lambda one: executions.set_priority([one], rank, by), "changed")


@subcommand(
    "reschedule",
    option("time", help=f"now, or a time ({TIME_FORMAT})", type=lambda t: None if t == "now" else ahead(t)),
    *KEYS,
    notes=EXIT_CODES,
)
def reschedule(options: Options, out: Any) -> int:
    """start waiting executions no earlier than a given time, or as soon as possible

    queue reschedule "2026-11-28 22:00" order-1001 --reason "cheaper at night"
    queue reschedule now order-1001
    running and ended executions are left unchanged
    """
    by, when = by_command(options["reason"]), options["time"] or database_now()
    return _change_each(options, out, lambda one: executions.set_run_after([one], when, by), "rescheduled")


@subcommand(
    "retry",
    *KEYS,
    option("--from-start", action="store_true", help="retry from the first step it needs"),
    option("--payload", metavar="FILE", help="with this payload, a JSON object; - reads standard input"),
    notes=EXIT_CODES,
)
def retry(options: Options, out: Any) -> int:
    """retry failed, cancelled or skipped executions from their step, or from the start

    queue retry order-1001 order-1002 --reason "the host is back"
    queue retry order-1001 --from-start --reason "new model"      discards what its steps have stored
    queue show KEY --json | jq .payload > p.json; queue retry KEY --payload p.json
    done work is left unchanged; for all failures of one kind: queue retry-failed
    """
    by, from_start = by_command(options["reason"]), options["from_start"]
    if from_start:
        _check_reason("retry_from_start", options)
    if options["payload"]:
        if len(options["keys"]) > 1:
            raise BadInput("--payload is for one execution: name one key")
        payload = payload_validation.parse(read_text(options["payload"]))

    def act(execution: Execution) -> int:
        if options["payload"]:
            given = payload_validation.restore_masked(payload, execution.payload)
            return executions.retry_with_payload(execution, given, by, from_start=from_start)
        return (executions.retry_from_start if from_start else executions.retry)([execution], by)

    return _change_each(options, out, act, "retried")


def _with_few_attempts(failed: QuerySet[Execution], most: int) -> QuerySet[Execution]:
    """Those with at most so many attempts in all, not counting interrupted and snoozed ones."""
    counted = Count("attempts", filter=~Q(attempts__outcome__in=NOT_COUNTED_AS_ATTEMPT))
    return failed.annotate(tried=counted).filter(tried__lte=most)


def read_text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{name} cannot be read: {error}") from None


@subcommand(
    "retry-failed",
    option("--kind", "--error-kind", help="only this error kind"),
    ONLY_FLOW,
    option("--dry-run", action="store_true", help="count and sample, change nothing"),
    option("--max-attempts", type=positive, metavar="N", help="only those that had at most N attempts"),
    option("--per-minute", type=natural, help="as a bulk action at this rate; 0: all at once, here"),
    REASON,
    JSON_OBJECT,
    notes=f"more than {bulk.AT_ONCE:,} are retried in the background at SLUICE_BULK_RETRIES_PER_MINUTE\n"
    f"unless --per-minute is given; --per-minute 0: all at once, in this process\n{EXIT_CODES}",
)
def retry_failed(options: Options, out: Any) -> int:
    """retry failed executions from the step they failed at

    queue retry-failed --dry-run
    queue retry-failed --kind network --reason "proxy repaired"
    queue retry-failed --per-minute 60             in the background, 60 a minute
    queue retry-failed --max-attempts 3            not those tried more often; all at once, here
    """
    chosen = {"error_kind": options["kind"], "flow": options["flow"]}
    filters = {"state": "failed", **{name: value for name, value in chosen.items() if value}}
    failed: QuerySet[Execution] = executions_matching(filters)
    if options["max_attempts"]:
        failed = _with_few_attempts(failed, options["max_attempts"])
    if options["dry_run"]:
        out.say(f"{failed.count()} would be retried", would_change=failed.count())
        for execution in failed.order_by("pk")[:10] if not options["json"] else ():
            out.write(f"  {execution}  {execution.error_kind}: {execution.error_message}")
        return FINE
    by, matched = by_command(options["reason"]), failed.count()
    if (
        matched
        and not options["max_attempts"]
        and bulk.rate_for(ACTIONS["retry"], matched, options["per_minute"])
    ):
        action = bulk.begin(bulk.BulkRequest("retry", filters, per_minute=options["per_minute"]), by)
        out.say(
            f"{action.matched:,} are retried in the background, {action.per_minute:,} a minute: "
            f"`queue bulk show {action.pk} --watch` shows progress, `queue bulk stop {action.pk}` stops it",
            bulk_action=action.pk, matched=action.matched, per_minute=action.per_minute,
        )  # fmt: skip
        return FINE
    return _retry_here(failed, by, out)


def _retry_here(failed: QuerySet[Execution], by: Actor, out: Any) -> int:
    """Retry them in this process, some at a time; the first that still stand failed are named."""
    ids = list(failed.order_by("pk").values_list("pk", flat=True))
    chunks = [ids[n : n + CHUNK] for n in range(0, len(ids), CHUNK)]
    retried = sum(
        executions.retry(Execution.objects.filter(pk__in=some).only("pk"), by)
        for some in tracked(chunks, "retrying", lambda: len(ids), len)
    )
    left = Execution.objects.failed().filter(pk__in=ids).order_by("pk")[:CHUNK] if retried < len(ids) else ()
    others = {str(each): "failed, and cannot be retried: its flow or step is gone" for each in left}
    for name, why in () if out.json else others.items():
        out.write(f"{name} left unchanged: it is {why}")
    unchanged = len(ids) - retried
    said = f", {unchanged} left unchanged" if unchanged else ""
    out.say(f"{retried} retried{said}", changed=retried, left_unchanged=unchanged, unchanged=others)
    return SOME_FAILED if unchanged else FINE
