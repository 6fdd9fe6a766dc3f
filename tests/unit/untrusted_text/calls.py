"""Which functions are tested with hostile texts, and how those that need more than a text are called."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from fnmatch import fnmatch
from logging import INFO, LogRecord
from pathlib import Path
from typing import Any

import httpx

from pipeline.steps import closing_brackets
from pipeline.steps.analyse import answers, chunks, split_by_tokens
from pipeline.steps.extract import page_ranges, reference_entries
from pipeline.steps.fetch import landing_page
from pipeline.steps.http import decompress, redirects
from pipeline.steps.identify import MAX_LENGTH, Identifier, host_key, identify
from pipeline.steps.llm import endpoint, response
from pipeline.steps.report import report
from pipeline.steps.resolve.sources import arxiv, crossref, json_fields, openalex, semanticscholar, unpaywall
from pipeline.web import admin, collection_view
from queuemgr.base import allowance, credentials, meters, rate, redaction
from queuemgr.cli import arguments, enqueue
from queuemgr.flows import payload_validation, unique
from queuemgr.models import Limit
from queuemgr.operations.dead_letters import Line
from queuemgr.reporting import filtering
from queuemgr.schedules import timing
from queuemgr.scheduling import claims, limit_input
from queuemgr.steptools import number_ranges, retry_after
from queuemgr.tasks import call_arguments, celery_options, limit_templates
from queuemgr.web.admin import bulk_wizard, filters
from queuemgr.web.api import idempotency, json_body
from queuemgr.worker import log_format, message_form, unreadable_messages
from tests.unit.untrusted_text.functions import ROOT, Function, functions_in, in_bytes, ways_to_call
from tests.unit.untrusted_text.left_out import LEFT_OUT
from tests.unit.untrusted_text.other_modules import OTHER_MODULES
from tests.unit.untrusted_text.shapes import behind, compressed, in_json, tried

PACKAGES = ("queuemgr", "pipeline", "project")

NOW = datetime(2026, 11, 30, tzinfo=UTC)
PAPER = Identifier("arxiv", "arxiv:2101.00001", "2101.00001")
ENDPOINT = endpoint.Endpoint("http://model.example", "m-1", "sk-123456")


def of_status(status: int, text: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, content=in_bytes(text), headers=headers)


def log_record(text: str) -> LogRecord:
    return LogRecord("a", INFO, "a.py", 1, text, (), None)


def as_feed(text: str) -> bytes:
    body = "".join(letter for letter in text if letter.isprintable() and not "\ud800" <= letter <= "\udfff")
    escaped = body.replace("&", "&amp;").replace("<", "&lt;")
    return (
        '<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>http://arxiv.org/abs/2101.00001</id>'
        f"<title>{escaped}</title></entry></feed>"
    ).encode()


def everywhere(text: str) -> dict[str, Any]:
    """A record of any of the sources, with the text wherever one looks."""
    record: dict[str, Any] = {
        name: text
        for name in (
            "title", "display_name", "doi", "DOI", "license", "year", "publication_date", "pdf_url", "url",
            "URL", "landing_page_url", "url_for_pdf", "published_date", "oa_status", "abstract",
        )
    }  # fmt: skip
    return record | {
        "message": {"title": [text], "DOI": text, "license": [{"URL": text}], "link": [{"URL": text}]},
        "author": [{"given": text, "family": text, "name": text}],
        "authors": [{"name": text}],
        "z_authors": [{"given": text, "raw_author_name": text}],
        "authorships": [{"author": {"display_name": text}}],
        "best_oa_location": {"url_for_pdf": text, "pdf_url": text, "license": text},
        "oa_locations": [{"url_for_pdf": text, "url": text}],
        "locations": [{"pdf_url": text, "landing_page_url": text}],
        "openAccessPdf": {"url": text, "license": text},
        "externalIds": {"DOI": text, "ArXiv": text},
    }


def source(read: Callable[[bytes, Identifier], object]) -> Callable[[str], object]:
    """Of an answer with an eighth of the text in some forty places: five times as long as the text."""
    return lambda text: read(json.dumps(everywhere(text[: len(text) // 8])).encode(), PAPER)


LONG_PROMPT = 100_000
"""Characters of a prompt for a model with a context of 32,000 tokens."""

ADDRESSES = ("http://a.org/", "http://a.org:80/", "http://", "https://a.", "http://[")
ITEMS = (
    "10.1000/",
    "doi:10.1000/",
    "https://a.org/",
    "https://",
    "2101.00001 [",
    "arXiv:",
    "arXiv:2101.00001",
    "./",
)


def page_list(text: str) -> str:
    """As many ranges as the text is long, which then follows."""
    return "1-4," * (len(text) // 8) + "5" + text[: len(text) // 2]


def as_tokens(text: str) -> str:
    return "a=1 " * (len(text) // 8) + text[: len(text) // 2].replace("=", "") + "=1"


def called(a: Any = "", *, b: list[str]) -> None:
    """A queued task that takes texts."""


CALL = call_arguments.CallArguments("called", called)


def analysis(text: str) -> dict[str, Any]:
    lines = text.split("\n")
    return {"title": text, "summary": text, "keywords": lines, "contributions": [text] * 3}


def as_received(body: bytes, encoding: str) -> Iterator[bytes]:
    """In pieces of the size in which they are read from a connection."""
    decompressor = decompress.Decompressor(encoding)
    for at in range(0, len(body), RECEIVED):
        yield from decompressor.feed(body[at : at + RECEIVED])


RECEIVED = 65_536
"""Bytes: the most that httpcore reads at once."""


def failure_line(text: str) -> Any:
    """The text as a line of failed work, and in each of its members."""
    whole = {"flow": "probe", "key": "k", "payload": {}}
    lines = [text, *(json.dumps({**whole, name: text}) for name in ("flow", "key", "priority", "finished"))]
    return tried(Line.parse, [*lines, json.dumps({**whole, "payload": {"a": text, text: [text]}})])


CALLS: Mapping[str, Callable[[str], Any]] = {
    "pipeline.steps.analyse.chunks:plan_chunks": lambda text: chunks.plan_chunks(storable(text), 8000),
    "pipeline.steps.analyse.split_by_tokens:split": lambda text: split_by_tokens.split(
        chunks.without_endless_runs(storable(text)), 8000
    ),
    "pipeline.steps.analyse.split_by_tokens:tokens_in": lambda text: split_by_tokens.tokens_in(
        chunks.without_endless_runs(storable(text))[:LONG_PROMPT], LONG_PROMPT
    ),
    "pipeline.steps.extract.page_ranges:one_range": lambda text: page_ranges.one_range("1-" + text[:9], text),
    "pipeline.steps.extract.page_ranges:pages_of": lambda text: page_ranges.pages_of(page_list(text), 9),
    "pipeline.steps.extract.page_ranges:parse_ranges": lambda text: page_ranges.parse_ranges(page_list(text)),
    "pipeline.steps.extract.reference_entries:chain": lambda text: [
        reference_entries.chain(text.split("\n"), pattern) for pattern in reference_entries.NUMBERED.values()
    ],
    "pipeline.steps.fetch.landing_page:_Reader.handle_starttag": lambda text: (
        landing_page._Reader().handle_starttag("meta", [("name", text), ("content", text)])
    ),
    "pipeline.steps.http.decompress:Decompressor.feed": lambda text: list(
        decompress.Decompressor("").feed(in_bytes(text))
    ),
    "pipeline.steps.http.decompress:_Layer.*": compressed(as_received),
    "pipeline.steps.http.redirects:RedirectChain.require_host": behind(
        redirects.RedirectChain("host:a.org:80").require_host, "http://a.org/", "http://", ""
    ),
    "pipeline.steps.http.redirects:key_of_host": behind(redirects.key_of_host, *ADDRESSES),
    "pipeline.steps.identify:host_key": behind(host_key, *ADDRESSES),
    "pipeline.steps.identify:identify": behind(identify, *ITEMS, most=MAX_LENGTH),
    "pipeline.steps.analyse.answers:parsed": lambda text: tried(
        answers.parsed,
        [json.dumps(analysis(text)), f"<think>{text}</think>{json.dumps(analysis('a'))}", text],
    ),
    "pipeline.steps.resolve.sources.json_fields:record": lambda text: json_fields.record({"a": text}, "a"),
    "pipeline.steps.resolve.sources.json_fields:record_of": in_json(
        lambda body: json_fields.record_of(body, "a"), as_bytes=True
    ),
    "pipeline.steps.http.redirects:RedirectChain.from_context": lambda text: (
        redirects.RedirectChain.from_context(text, {})
    ),
    "queuemgr.steptools.retry_after:*": lambda text: retry_after.retry_after_seconds(text, NOW),
    "pipeline.steps.llm.endpoint:Dialect.after": lambda text: endpoint.Dialect().after(text),
    "pipeline.steps.llm.endpoint:Dialect.format": lambda text: endpoint.Dialect().format({"name": text}),
    "pipeline.steps.llm.response:answer_in": lambda text: response.answer_of(
        of_status(200, json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})),
        ENDPOINT,
    ),
    "pipeline.steps.llm.response:failure_of": lambda text: response.answer_of(
        of_status(429, json.dumps({"error": {"message": text, "code": text, "type": text}})), ENDPOINT
    ),
    "pipeline.steps.llm.response:refuse_incomplete": lambda text: response.answer_of(
        of_status(200, json.dumps({"choices": [{"finish_reason": text, "message": {}}]})), ENDPOINT
    ),
    "pipeline.steps.llm.response:[uf]*": lambda text: response.answer_of(of_status(200, text), ENDPOINT),
    "pipeline.steps.llm.response:error_status_in": lambda text: response.error_status_in({"code": text}),
    "pipeline.steps.llm.response:kind_of": lambda text: response.kind_of(429, text, text, waits=False),
    "pipeline.steps.llm.response:excerpt": lambda text: response.excerpt(text, ENDPOINT),
    "pipeline.steps.llm.response:without_echo": lambda text: response.without_echo(
        text[: response.EXCERPT], [{"content": text}]
    ),
    "pipeline.steps.report.report:source_lookup": lambda text: report.source_lookup(
        {"source": text, "url": text, "detail": [text]}
    ),
    "pipeline.steps.closing_brackets:without_closing": lambda text: closing_brackets.without_closing(
        text, ".,;", {")": "(", "]": "[", ">": "<"}
    ),
    "pipeline.steps.resolve.sources.arxiv:_read": lambda text: arxiv._read(as_feed(text), PAPER),
    "pipeline.steps.resolve.sources.crossref:_read": source(crossref._read),
    "pipeline.steps.resolve.sources.openalex:_read": source(openalex._read),
    "pipeline.steps.resolve.sources.semanticscholar:_read": source(semanticscholar._read),
    "pipeline.steps.resolve.sources.unpaywall:_read": source(unpaywall._read),
    "queuemgr.base.rate:parse_rate": behind(
        rate.parse_rate.__wrapped__, "50/s", "50 / s, burst 7", "1", most=rate.MOST_CHARACTERS
    ),
    "queuemgr.base.allowance:parse_allowance": behind(
        allowance.parse_allowance.__wrapped__, "5 tokens/day ", "5 tokens/", "5", most=allowance.LONGEST_ENTRY
    ),
    "queuemgr.base.allowance:parse_allowances": behind(
        allowance.parse_allowances.__wrapped__, "5 tokens/day;", "5 tokens/day\n", ";"
    ),
    "queuemgr.base.meters:Meter.amount": behind(
        meters.meter_named("usd").amount, "1", "0.", "1e", most=meters.LONGEST_NUMBER
    ),
    "pipeline.steps.llm.response:read_by": in_json(
        lambda body: response.read_by(of_status(400, body), ENDPOINT, [{"content": body[:9000]}])
    ),
    "queuemgr.base.credentials:_of_userinfo": lambda text: credentials._of_userinfo(text, is_http=True),
    "queuemgr.base.credentials:of_options": lambda text: list(
        credentials.of_options({"a": [text], "key": text})
    ),
    "queuemgr.base.credentials:_parameters": behind(credentials._parameters, "http://a/?a=", "?", ""),
    "queuemgr.scheduling.claims:as_text": behind(claims.as_text, "", most=claims.MAX_LIMIT_KEY),
    "queuemgr.scheduling.claims:tokens_as_text": lambda text: claims.tokens_as_text(
        {text[: claims.MAX_TOKENS - 2]: 1}
    ),
    "queuemgr.scheduling.claims:tokens_in": lambda text: list(claims.tokens_in(as_tokens(text))),
    "queuemgr.scheduling.claims:claims_of": lambda text: claims.claims_of.__wrapped__(
        "a", text, as_tokens(text), 1
    ),
    "queuemgr.scheduling.claims:names_of": lambda text: claims.names_of("a", text),
    "queuemgr.scheduling.claims:route_keys": lambda text: claims.route_keys(text, as_tokens(text)),
    "queuemgr.scheduling.limit_input:parse_limit_field": behind(
        lambda text: limit_input.parse_limit_field("a", "rate", text), "", most=99
    ),
    "queuemgr.scheduling.limit_input:parse_policy_field": behind(
        lambda text: limit_input.parse_policy_field("a", "max_attempts", text), "", most=4
    ),
    "queuemgr.scheduling.limit_input:_read": behind(
        lambda text: limit_input._read(Limit, "a", "daily_budget", text), "", most=9
    ),
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
    "queuemgr.cli.enqueue:tokens": lambda text: tried(
        enqueue.tokens, ["a=1, " * (len(text) // 8) + "b=" + text[:9], "a=" + text, text]
    ),
    "pipeline.steps.llm.response:json_of": in_json(lambda body: response.json_of(of_status(200, body))),
    "queuemgr.worker.message_form:_problem_of_body": lambda text: [
        message_form._problem_of_body(text, "base64"),
        message_form._problem_of_body("a", text),
    ],
    "queuemgr.worker.unreadable_messages:_loads": in_json(unreadable_messages._loads),
    "pipeline.web.admin:linked": lambda text: admin.linked(text, text),
    "pipeline.web.admin:cells": lambda text: admin.cells("td", [text]),
    "pipeline.web.admin:table": lambda text: admin.table(["a"], [[line] for line in text.split("\n")[:99]]),
    "pipeline.web.collection_view:CollectionQuery.__init__": lambda text: collection_view.CollectionQuery(
        {"status": text, "kind": text, "q": text, "sort": text, "page": text}
    ).address(),
    "queuemgr.cli.arguments:above_zero": behind(arguments.above_zero, "0.", "1"),
    "queuemgr.cli.arguments:timestamp": behind(arguments.timestamp, "2026-11-28T06:00:00.", "2026-11-28"),
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
"""How a function is called that needs more than a text; also some that take what holds one."""


def storable(text: str) -> str:
    """As it is once it has been read out of a PDF: without half surrogate pairs."""
    return text.encode("utf-8", "replace").decode()


def modules() -> list[Path]:
    """All but those named."""
    named = {name for names in OTHER_MODULES.values() for name in names.split()}
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return sorted(
        path
        for path in paths
        if "migrations" not in path.parts and str(path.relative_to(ROOT).with_suffix("")) not in named
    )


def reason_left_out(function: Function) -> str:
    return next((why for pattern, why in LEFT_OUT.items() if fnmatch(function.id, pattern)), "")


def special_calls(function: Function) -> list[Callable[[str], Any]]:
    return [call for pattern, call in CALLS.items() if fnmatch(function.id, pattern)]


def calls_of(function: Function) -> list[Callable[[str], Any]]:
    """Raises `LookupError` for a function that needs an entry above."""
    return special_calls(function) or list(ways_to_call(function))


def all_functions() -> list[Function]:
    """Those that are found, and those named above that take what holds a text."""
    found = [function for path in modules() for function in functions_in(path)]
    known = {function.id for function in found}
    others = [name for name in CALLS if name not in known and "*" not in name]
    return found + [Function(*name.split(":"), ()) for name in others]


def functions_to_test() -> list[Function]:
    return [each for each in all_functions() if special_calls(each) or not reason_left_out(each)]
