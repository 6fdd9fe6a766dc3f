"""Which functions are tested with hostile texts, how those that need more than a text are called, and which
are left out and why."""

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
from pipeline.steps.analyse import chunks
from pipeline.steps.extract import page_ranges, reference_entries
from pipeline.steps.fetch import landing_page
from pipeline.steps.http import decompress, redirects, retry_after
from pipeline.steps.identify import Identifier
from pipeline.steps.llm import endpoint, response
from pipeline.steps.report import report
from pipeline.steps.resolve.sources import arxiv, crossref, openalex, semanticscholar, unpaywall
from queuemgr.base import redaction
from queuemgr.worker import log_format
from tests.unit.untrusted_text.functions import ROOT, Function, functions_in, in_bytes, ways_to_call

FILES = (
    "pipeline/steps/**/*.py", "pipeline/intake.py", "queuemgr/base/rate.py", "queuemgr/base/redaction.py",
    "queuemgr/base/credentials.py", "queuemgr/worker/masked_conf.py", "queuemgr/worker/remote_control.py",
    "queuemgr/base/safe_text.py", "queuemgr/base/unreachable.py", "queuemgr/lifecycle/error_fingerprint.py",
    "queuemgr/flows/payload_validation.py", "queuemgr/reporting/filtering.py", "queuemgr/reporting/export.py",
    "queuemgr/cli/import_file.py", "queuemgr/cli/arguments.py", "queuemgr/cli/enqueue.py",
    "queuemgr/web/api/json_body.py", "queuemgr/web/admin/limits.py", "queuemgr/web/crafted_requests.py",
    "queuemgr/worker/log_format.py", "project/task_compat.py",
)  # fmt: skip
"""Where text from outside is read: a new function here that takes text must be callable with one alone, or be
named below."""

LEFT_OUT: Mapping[str, str] = {
    "pipeline.steps.confinement.*": "confines the process, by names of our own",
    "pipeline.steps.pdf.*": "of a PDF: read in a child process, under its limits of seconds and memory",
    "pipeline.steps.ocr.[!v]*": "of the engines: they run in a child process, under its limits",
    "pipeline.steps.ocr.vision_client:*": "sends pictures; what is answered is read by vision_response",
    "pipeline.steps.ocr.vision:*": "sends pictures; what is answered is read by vision_response",
    "pipeline.steps.fetch.download:*": "moves bytes; partial_file and landing_page read them",
    "pipeline.steps.fetch.fetch:*": "moves bytes; what they are is decided by partial_file",
    "pipeline.steps.fetch.local_file:*": "opens files",
    "pipeline.steps.fetch.fetch_state:*": "of a URL that key_of_host has read",
    "pipeline.steps.fetch.resume:*": "of an ETag and a URL, which httpx has bounded",
    "pipeline.steps.fetch.partial_file:PartialFile.*": "counts and hashes bytes",
    "pipeline.steps.http.client:*": "sends requests",
    "pipeline.steps.http.transport:*": "connects to addresses",
    "pipeline.steps.http.failure:*": "of a URL that was requested",
    "pipeline.steps.http.minimum_speed:*": "counts bytes",
    "pipeline.steps.llm.client:*": "sends requests; what is answered is read by response",
    "pipeline.steps.analyse.requests:*": "sends requests; what is answered is read by answers",
    "pipeline.steps.analyse.analyse:*": "calls the other modules, in order",
    "pipeline.steps.analyse.chunks:known_chunks": "of a number in a context",
    "pipeline.steps.analyse.chunks:tokens_in": "of a prompt that was split before",
    "pipeline.steps.analyse.extractive:Words.to_words": "calls words_of",
    "pipeline.steps.extract.extract:*": "of readings; their text is judged by legibility and clean_text",
    "pipeline.steps.extract.reference_entries:author_starts": "called by entries_of",
    "pipeline.steps.extract.reference_entries:numbered": "called by entries_of",
    "pipeline.steps.extract.reference_entries:listed": "called by entries_of",
    "pipeline.steps.extract.reference_entries:references": "called by entries_of",
    "pipeline.steps.extract.reference_entries:end_of_last": "called by entries_of",
    "pipeline.steps.extract.reference_entries:likelihood": "of one line of several, called by entries_of",
    "pipeline.steps.identify:_*": "of at most MAX_LENGTH characters, called by identify",
    "pipeline.steps.ocr.vision_response:[lq]*": "of the lines that front_matter has read",
    "pipeline.steps.ocr.vision_response:flag": "of the lines that front_matter has read",
    "pipeline.steps.http.safe_addresses:_*": "of addresses that the system's resolver gives",
    "pipeline.steps.report.report:group_pages": "of our own words for pages",
    "pipeline.steps.resolve.resolve:*": "of identifiers and answers, which were read before",
    "pipeline.steps.resolve.fallback_urls:*": "of URLs that key_of_host reads",
    "pipeline.steps.resolve.resolve_state:*": "of our own records",
    "pipeline.steps.resolve.sources.answer:*": "of our own records",
    "pipeline.steps.resolve.sources.lookup_log:*": "of our own records",
    "pipeline.steps.resolve.sources.merge:*": "of our own records",
    "pipeline.steps.resolve.sources.query:*": "sends requests; what is answered is read by each source",
    "pipeline.steps.resolve.sources.request:*": "sends requests; what is answered is read by each source",
    "pipeline.steps.resolve.sources.source:*": "of identifiers, which were read before",
    "pipeline.steps.resolve.sources.ranking:*": "of addresses that identify reads",
    "pipeline.steps.resolve.sources.arxiv:pdf_url": "of an identifier, which was read before",
    "pipeline.steps.resolve.sources.arxiv:versioned_id": "of an identifier, which was read before",
    "pipeline.steps.resolve.sources.*:_[!ri]*": "called by _read, whose JSON the test makes",
    "*.__init__": "keeps what it is given",
    "pipeline.intake:parse_*": "calls identify and writes a row",
    "pipeline.intake:register_items": "calls identify and writes rows",
    "pipeline.intake:new_execution": "keeps what it is given",
    "pipeline.intake:link": "looks a key up",
    "pipeline.intake:start": "of documents",
    "queuemgr.base.rate:book": "of names of limits",
    "queuemgr.base.rate:_whole": "of at most 16 digits",
    "queuemgr.reporting.filtering:[!p]*": "makes a condition of at most 255 characters",
    "queuemgr.reporting.export:*": "of rows, whose columns are bounded",
    "queuemgr.cli.import_file:[!_]*": "calls the functions of a flow",
    "queuemgr.cli.import_file:_[!nu]*": "opens a file, and calls the functions of a flow",
    "queuemgr.cli.enqueue:[!t]*": "calls the functions of a flow",
    "queuemgr.web.admin.limits:[!i]*": "of the fields of a form, which are bounded",
    "queuemgr.base.credentials:register_*": "of settings: keeps what it finds",
    "queuemgr.base.credentials:_*": "called by of_urls and without_url_credentials",
    "queuemgr.base.credentials:of_[oh]*": "of settings",
    "queuemgr.worker.masked_conf:[!m]*": "of settings",
    "queuemgr.worker.remote_control:*": "of names and arguments of at most 255 characters",
    "queuemgr.base.safe_text:_escape": "of one character",
    "queuemgr.flows.payload_validation:_once_each": "called by parse, for each object",
    "queuemgr.web.api.json_body:StrictJson.*": "of a request, whose size Django bounds; calls read",
    "queuemgr.web.crafted_requests:*": "of a request, whose size Django bounds",
    "queuemgr.base.unreachable:[!_i]*": "of errors of our own connections",
    "project.task_compat:*": "of the arguments of the application's own tasks",
}  # fmt: skip
"""Patterns of names, `module:function`, and why they are not called."""

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
    return lambda text: read(json.dumps(everywhere(text)).encode(), PAPER)


CALLS: Mapping[str, Callable[[str], Any]] = {
    "pipeline.steps.analyse.chunks:plan_chunks": lambda text: chunks.plan_chunks(storable(text), 8000),
    "pipeline.steps.analyse.chunks:split": lambda text: chunks.split(
        chunks.without_endless_words(storable(text)), 8000
    ),
    "pipeline.steps.extract.page_ranges:pages_of": lambda text: page_ranges.pages_of(text, 9),
    "pipeline.steps.extract.page_ranges:parse_ranges": lambda text: page_ranges.parse_ranges(text),
    "pipeline.steps.extract.reference_entries:chain": lambda text: [
        reference_entries.chain(text.split("\n"), pattern) for pattern in reference_entries.NUMBERED.values()
    ],
    "pipeline.steps.fetch.landing_page:_Reader.handle_starttag": lambda text: (
        landing_page._Reader().handle_starttag("meta", [("name", text), ("content", text)])
    ),
    "pipeline.steps.http.decompress:Decompressor.feed": lambda text: list(
        decompress.Decompressor("").feed(in_bytes(text))
    ),
    "pipeline.steps.http.decompress:_Layer.*": lambda text: list(
        decompress.Decompressor("gzip, deflate").feed(in_bytes(text))
    ),
    "pipeline.steps.http.redirects:RedirectChain.require_host": lambda text: redirects.RedirectChain(
        "host:a:443"
    ).require_host(text),
    "pipeline.steps.http.redirects:RedirectChain.from_context": lambda text: (
        redirects.RedirectChain.from_context(text, {})
    ),
    "pipeline.steps.http.retry_after:*": lambda text: retry_after.retry_after_seconds(text, NOW),
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
    return sorted({path for pattern in FILES for path in ROOT.glob(pattern)})


def reason_left_out(function: Function) -> str:
    return next((why for pattern, why in LEFT_OUT.items() if fnmatch(function.id, pattern)), "")


def special_calls(function: Function) -> list[Callable[[str], Any]]:
    return [call for pattern, call in CALLS.items() if fnmatch(function.id, pattern)]


def calls_of(function: Function) -> list[Callable[[str], Any]]:
    """Raises `LookupError` for a function that needs an entry above."""
    return special_calls(function) or list(ways_to_call(function))


def all_functions() -> Iterator[Function]:
    for path in modules():
        yield from functions_in(path)


def functions_to_test() -> list[Function]:
    return [each for each in all_functions() if special_calls(each) or not reason_left_out(each)]
