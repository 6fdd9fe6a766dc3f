"""How functions of the queue, its commands, pages and messages are called with a hostile text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from io import BytesIO
from logging import INFO, LogRecord
from typing import Any

from project import mail_server
from queuemgr.base import allowance, budget_day, credentials, meters, rate, redaction, webhook_signature
from queuemgr.cli import arguments, batch, enqueue, import_file, schedule
from queuemgr.flows import payload_validation, unique
from queuemgr.models import Limit
from queuemgr.models.webhooks import MAX_URL
from queuemgr.operations import limit_names, webhooks
from queuemgr.operations.dead_letters import Line
from queuemgr.reporting import filtering
from queuemgr.schedules import timing
from queuemgr.scheduling import claims, limit_input
from queuemgr.steptools import number_ranges, rate_limit_headers, retry_after, webhook_target
from queuemgr.tasks import call_arguments, celery_options, limit_templates
from queuemgr.web import crafted_requests
from queuemgr.web.admin import bulk_wizard, filters, schedule_timeline
from queuemgr.web.api import idempotency, json_body
from queuemgr.worker import file_transport, log_format, message_form, unreadable_messages
from tests.unit.untrusted_text.functions import in_bytes
from tests.unit.untrusted_text.shapes import behind, in_json, tried

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def log_record(text: str) -> LogRecord:
    return LogRecord("a", INFO, "a.py", 1, text, (), None)


def as_resources(text: str) -> str:
    return "a=1 " * (len(text) // 8) + text[: len(text) // 2].replace("=", "") + "=1"


def called(a: Any = "", *, b: list[str]) -> None:
    """A queued task that takes texts."""


RATE_LIMIT_HEADERS = (
    "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", "ratelimit", "ratelimit-policy",
)  # fmt: skip
CALL = call_arguments.CallArguments("called", called)


def failure_line(text: str) -> Any:
    """The text as a line of failed work, and in each of its members."""
    whole = {"flow": "probe", "key": "k", "payload": {}}
    lines = [text, *(json.dumps({**whole, name: text}) for name in ("flow", "key", "priority", "finished"))]
    return tried(Line.parse, [*lines, json.dumps({**whole, "payload": {"a": text, text: [text]}})])


QUEUE_CALLS: Mapping[str, Callable[[str], Any]] = {
    "project.mail_server:mail_settings": behind(mail_server.mail_settings, "smtp://", "smtp://host/"),
    "queuemgr.base.budget_day:zone": behind(
        budget_day.zone.__wrapped__, "", "Europe/", most=budget_day.LONGEST_NAME
    ),
    "queuemgr.base.webhook_signature:keys_by_name": behind(
        webhook_signature.keys_by_name, "", "a=whsec_", f"a={webhook_signature.new_secret()}," * 99
    ),
    "queuemgr.cli.batch:callback": in_json(lambda document: batch.callback(f"shop.report={document}")),
    "queuemgr.cli.import_file:_cut": lambda text: import_file._cut(BytesIO(in_bytes(text))),
    "queuemgr.cli.import_file:numbered_lines": lambda text: import_file.numbered_lines(
        in_bytes(text).split(b"\n")
    ),
    "queuemgr.cli.schedule:_payload": in_json(lambda document: schedule._payload({"payload": document})),
    "queuemgr.operations.webhooks:checked": lambda text: tried(
        webhooks.checked, [{name: text} for name in ("url", "flows", "events", "secret_name", "description")]
    ),
    "queuemgr.steptools.webhook_target:parse": behind(
        lambda url: webhook_target.parse(url, allow_private=True),
        "https://a.org/",
        "https://",
        "https://a.org:",
        "http://[",
        "https://a.org/?",
        most=MAX_URL,
    ),
    "queuemgr.web.admin.schedule_timeline:asked": lambda text: schedule_timeline.asked(text, NOW),
    "queuemgr.web.crafted_requests:check_id": behind(
        lambda text: crafted_requests.check_id(Limit._meta.pk, text), "", most=9
    ),
    "queuemgr.worker.file_transport:_parsed": in_json(file_transport._parsed, as_bytes=True),
    "queuemgr.steptools.rate_limit_headers:*": lambda text: [
        rate_limit_headers.response_limits({name: f"{beginning}{text}"[:most], text[:most]: "1"}, NOW)
        for name in (*RATE_LIMIT_HEADERS, "date", "retry-after-ms")
        for beginning in ("", '"a";r=1', '"a";q=')
        for most in (rate_limit_headers.LONGEST_VALUE, None)
    ],
    "queuemgr.steptools.retry_after:wait_in": lambda text: [
        retry_after.wait_in({name: text}, NOW) for name in (*retry_after.MILLISECONDS, "retry-after")
    ],
    "queuemgr.steptools.retry_after:*": lambda text: retry_after.retry_after_seconds(text, NOW),
    "queuemgr.base.rate:parse_rate": behind(
        rate.parse_rate.__wrapped__, "50/s", "50 / s, burst 7", "1", most=rate.MOST_CHARACTERS
    ),
    "queuemgr.base.allowance:parse_allowance": behind(
        allowance.parse_allowance.__wrapped__, "5 tokens/day ", "5 tokens/", "5", most=allowance.LONGEST_ENTRY
    ),
    "queuemgr.base.allowance:parse_allowances": behind(
        allowance.parse_allowances.__wrapped__, "5 tokens/day;", "5 tokens/day\n", ";"
    ),
    "queuemgr.base.meters:from_text": behind(
        meters.from_text.__wrapped__, "tokens=", "tokens=5 usd=", most=meters.MAX_USES
    ),
    "queuemgr.base.meters:amounts_of": behind(
        lambda text: meters.amounts_of.__wrapped__(1, text), "tokens=", "tokens=5 usd=", most=meters.MAX_USES
    ),
    "queuemgr.base.meters:Meter.amount": behind(
        meters.meter_named("usd").amount, "1", "0.", "1e", most=meters.LONGEST_NUMBER
    ),
    "queuemgr.base.credentials:_of_userinfo": lambda text: credentials._of_userinfo(text, is_http=True),
    "queuemgr.base.credentials:of_options": lambda text: list(
        credentials.of_options({"a": [text], "key": text})
    ),
    "queuemgr.base.credentials:_parameters": behind(credentials._parameters, "http://a/?a=", "?", ""),
    "queuemgr.scheduling.claims:as_text": behind(claims.as_text, "", most=claims.MAX_LIMIT_KEY),
    "queuemgr.scheduling.claims:resources_as_text": lambda text: claims.resources_as_text(
        {text[: claims.MAX_RESOURCES - 2]: 1}
    ),
    "queuemgr.scheduling.claims:resources_in": lambda text: list(claims.resources_in(as_resources(text))),
    "queuemgr.scheduling.claims:claims_of": lambda text: claims.claims_of.__wrapped__(
        "a", text, as_resources(text), 1
    ),
    "queuemgr.scheduling.claims:names_of": lambda text: claims.names_of("a", text),
    "queuemgr.scheduling.claims:route_keys": lambda text: claims.route_keys(text, as_resources(text)),
    "queuemgr.scheduling.limit_input:parse_limit_field": behind(
        lambda text: limit_input.parse_limit_field("a", "rate", text), "", most=99
    ),
    "queuemgr.scheduling.limit_input:parse_policy_field": behind(
        lambda text: limit_input.parse_policy_field("a", "max_attempts", text), "", most=4
    ),
    "queuemgr.scheduling.limit_input:_read": behind(
        lambda text: limit_input._read(Limit, "a", "daily_budget", text), "", most=9
    ),
    "queuemgr.operations.limit_names:_meant": lambda text: [
        limit_names._meant(text[: limit_names.MAX_KEY], known)
        for known in (["abc", "host:abc"], [text[:255]])
    ],
    "queuemgr.steptools.number_ranges:numbers_in": lambda text: list(
        number_ranges.numbers_in("1-4, " * (len(text) // 8) + text[:9])
    ),
    "queuemgr.tasks.call_arguments:CallArguments.[ps]*": lambda text: CALL.payload(
        [], {"a": text, "b": [text]}
    ),
    "queuemgr.tasks.call_arguments:CallArguments.[cw]*": lambda text: CALL.call(
        CALL.with_defaults({"a": text, "b": text.split("\n")})
    ),
    "queuemgr.tasks.celery_options:_moment": behind(
        lambda text: celery_options._moment("a", text, NOW), "2026-11-28T06:00:00.", "2026-11-28"
    ),
    "queuemgr.tasks.celery_options:_parsed": behind(
        lambda text: celery_options._parsed("a", text), "2026-11-28T06:00:00.", "2026-11-28"
    ),
    "queuemgr.tasks.limit_templates:KeyTemplate.fill": lambda text: limit_templates.KeyTemplate(
        (("a:", "a"),)
    ).fill({"a": text}),
    "queuemgr.tasks.limit_templates:parse_template": lambda text: limit_templates.parse_template(
        "a", "a:{a}" + text, ["a"]
    ),
    "queuemgr.web.admin.bulk_wizard:_ids": behind(bulk_wizard._ids, "1", "1," * 999),
    "queuemgr.web.admin.filters:ValueFilter.parse": lambda text: filters.ValueFilter.parse(None, text),
    "queuemgr.web.api.idempotency:_validate": behind(idempotency._validate, "", most=idempotency.MAX_KEY),
    "queuemgr.worker.message_form:problem_of_compression": lambda text: message_form.problem_of_compression(
        {"compression": text}, "gzip"
    ),
    "queuemgr.cli.enqueue:resources": lambda text: tried(
        enqueue.resources, ["a=1, " * (len(text) // 8) + "b=" + text[:9], "a=" + text, text]
    ),
    "queuemgr.worker.message_form:_problem_of_body": lambda text: [
        message_form._problem_of_body(text, "base64"),
        message_form._problem_of_body("a", text),
    ],
    "queuemgr.worker.unreadable_messages:_loads": in_json(unreadable_messages._loads),
    "queuemgr.cli.arguments:above_zero": behind(arguments.above_zero, "0.", "1"),
    "queuemgr.cli.arguments:positive": behind(arguments.positive, "", most=9),
    "queuemgr.cli.arguments:natural": behind(arguments.natural, "", most=9),
    "queuemgr.cli.arguments:row_id": behind(arguments.row_id, "", most=18),
    "queuemgr.cli.arguments:port": behind(arguments.port, "", most=4),
    "queuemgr.cli.arguments:_integer": lambda text: arguments._integer(text[:9], 0),
    "queuemgr.flows.unique:Unique.of": lambda text: unique.Unique(keys=["a"]).of(
        {"a": text, text: {text: [text]}}
    ),
    "queuemgr.flows.unique:UniqueKey.of": lambda text: unique.Unique().of({"a": text, text: {text: [text]}}),
    "queuemgr.operations.dead_letters:Line.parse": failure_line,
    "queuemgr.schedules.timing:parse": behind(
        timing.parse, "cron ", "cron * * * * * in ", "every 1s except ", "once ", most=timing.LONGEST_TEXT
    ),
    "queuemgr.flows.payload_validation:check_text": lambda text: payload_validation.check_text(
        "a", text, len(text)
    ),
    "queuemgr.flows.payload_validation:check_key": behind(
        payload_validation.check_key, "", most=payload_validation.MAX_KEY
    ),
    "queuemgr.flows.payload_validation:parse": in_json(payload_validation.parse, most=10_000),
    "queuemgr.reporting.filtering:parse_time": behind(
        lambda text: filtering.parse_time("a", text), "2026-11-28T06:00:00.", "2026-11-28"
    ),
    "queuemgr.web.api.json_body:read": in_json(json_body.read, as_bytes=True),
    "queuemgr.base.redaction:masked": lambda text: redaction.masked({"a": [text]}),
    "queuemgr.worker.log_format:LineFormatter.*": lambda text: log_format.LineFormatter().format(
        log_record(text)
    ),
    "queuemgr.worker.log_format:JsonFormatter.format": lambda text: log_format.JsonFormatter().format(
        log_record(text)
    ),
}
"""By name; also of some that take what holds a text."""
