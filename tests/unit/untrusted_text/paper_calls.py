"""How functions that read papers, and what servers and models answer, are called with a hostile text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import httpx

from pipeline import intake
from pipeline.steps import closing_brackets
from pipeline.steps.analyse import (
    answers,
    chunks,
    custom_schema,
    extractive,
    marked_text,
    quotes,
    split_by_tokens,
)
from pipeline.steps.analyse.analysis import KINDS, claims_in
from pipeline.steps.bibliography import bibtex, citation_keys, csl_json, entry, ocr_corpus, ris
from pipeline.steps.extract import doubtful_layers, page_lines, page_ranges, reference_entries
from pipeline.steps.fetch import download, landing_page, resume
from pipeline.steps.grobid import tei
from pipeline.steps.http import bounded_xml, decompress, failure, redirects
from pipeline.steps.identify import MAX_LENGTH, Identifier, host_key, identify
from pipeline.steps.llm import endpoint, response
from pipeline.steps.metadata import candidates, embedded, embedded_names, of_paper
from pipeline.steps.ocr import tesseract, vision_client
from pipeline.steps.pdf import sandbox
from pipeline.steps.report import report, stated_fields
from pipeline.steps.resolve import cited_work
from pipeline.steps.resolve.sources import arxiv, crossref, json_fields, openalex, semanticscholar, unpaywall
from pipeline.steps.resolve.sources.answer import Paper
from pipeline.web import admin, collection_view
from tests.unit.untrusted_text.functions import in_bytes
from tests.unit.untrusted_text.shapes import behind, compressed, in_json, tried

NOW = datetime(2026, 11, 30, tzinfo=UTC)


SCHEMA = custom_schema.read_schema({
    "type": "object",
    "properties": {
        "a": {"type": "string", "pattern": "^(a+|[^b]*)+$"},
        "b": {"type": "array", "items": {"type": "string", "maxLength": 10}, "uniqueItems": True},
    },
})  # fmt: skip

PAPER = Identifier("arxiv", "arxiv:2101.00001", "2101.00001")


ENDPOINT = endpoint.Endpoint("http://model.example", "m-1", "sk-123456")


def of_status(status: int, text: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, content=in_bytes(text), headers=headers)


def with_header(name: str, text: str) -> httpx.Response:
    request = httpx.Request("GET", "http://a.org/")
    return httpx.Response(200, headers=[(name.encode(), in_bytes(text))], request=request)


def in_info(text: str) -> dict[str, str]:
    """The metadata of a PDF, with the text in each of its entries."""
    return dict.fromkeys((*embedded_names.INFO, "venue"), text)


def in_each_field(text: str) -> dict[str, Any]:
    """A reference as it is stored, with the text in six places, each of which every format writes."""
    return {**dict.fromkeys(("text", "title", "venue", "doi", "arxiv_id"), text), "authors": [text]}


def in_each_format(made: entry.Entry) -> list[str]:
    return [bibtex.bibtex(made), ris.ris(made), csl_json.csl_json(made)]


def answered(text: str, ended: str) -> httpx.Response:
    choice = {"message": {"content": text}, "finish_reason": ended}
    return of_status(200, json.dumps({"choices": [choice]}))


def in_pages(text: str) -> dict[int, str]:
    """A document of pages of two thousand characters."""
    return {at: text[at : at + 2_000] for at in range(0, len(text), 2_000)}


def in_xml(text: str) -> str:
    body = "".join(letter for letter in text if letter.isprintable() and not "\ud800" <= letter <= "\udfff")
    return body.replace("&", "&amp;").replace("<", "&lt;")


def as_tei(text: str) -> bytes:
    """An answer of GROBID with the text in each place that is read."""
    said = in_xml(text)
    return (
        '<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><back><div><listBibl><biblStruct><analytic>'
        f"<title>{said}</title><author><persName><forename>{said}</forename><surname>{said}</surname>"
        f'</persName></author><idno type="DOI">10.1000/{said}</idno></analytic><monogr><title>{said}</title>'
        f'<imprint><date>{said}</date></imprint></monogr><note type="raw_reference">{said}</note>'
        "</biblStruct></listBibl></div></back></text></TEI>"
    ).encode()


def as_feed(text: str) -> bytes:
    escaped = in_xml(text)
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


def analysis(text: str) -> dict[str, Any]:
    lines = text.split("\n")
    claims = [{"text": text, "page": text, "quote": text}] * 3
    return {"title": text, "summary": text, "keywords": lines, "contributions": [text] * 3, "data": claims}


def schemas_with(text: str) -> Iterator[dict[str, Any]]:
    """Schemas with as much of the text as they may have, in each place that takes one."""
    for part in (
        {"description": text[:2_000]}, {"enum": [text[:2_000]]}, {"pattern": text[:200]}, {text[:60]: {}},
        {"properties": {text[:60]: {}}}, {"$ref": text},
    ):  # fmt: skip
        yield {"type": "object", "properties": {"a": part}}


def as_received(body: bytes, encoding: str) -> Iterator[bytes]:
    """In pieces of the size in which they are read from a connection."""
    decompressor = decompress.Decompressor(encoding)
    for at in range(0, len(body), RECEIVED):
        yield from decompressor.feed(body[at : at + RECEIVED])


RECEIVED = 65_536
"""Bytes: the most that httpcore reads at once."""


def storable(text: str) -> str:
    """As it is once it has been read out of a PDF: without half surrogate pairs."""
    return text.encode("utf-8", "replace").decode()


def doubts_of(pages: Mapping[int, str]) -> list[str]:
    own = doubtful_layers.own_letters(pages)
    return [doubtful_layers.doubt_of_scan(own[number], text, 1.0) for number, text in pages.items()]


PAPER_CALLS: Mapping[str, Callable[[str], Any]] = {
    "pipeline.steps.extract.doubtful_layers:[do]*": lambda text: doubts_of(in_pages(text)),
    "pipeline.steps.extract.doubtful_layers:is_better": lambda text: [
        doubtful_layers.is_better(text, "a word", doubt)
        for doubt in (doubtful_layers.Doubt.LAYER, doubtful_layers.Doubt.FORCED)
    ],
    "pipeline.steps.metadata.embedded:embedded": lambda text: embedded.embedded(
        in_info(text), text.split("\n")
    ),
    "pipeline.steps.metadata.embedded:[cdv]*": lambda text: [
        read(in_info(text)) for read in (embedded.credible_title, embedded.doi_in, embedded.venue_in)
    ],
    "pipeline.steps.bibliography.citation_keys:CitationKeys.key": lambda text: (
        citation_keys.CitationKeys().key([text], text, 2001)
    ),
    "pipeline.steps.bibliography.entry:of_*": lambda text: in_each_format(
        entry.of_reference("k", in_each_field(text[: len(text) // 8]))
    ),
    "pipeline.steps.bibliography.ocr_corpus:corpus_line": lambda text: ocr_corpus.corpus_line(
        "k", [(1, text), (2, text)], "2026-11-30", "2026-11-30", {"title": text}
    ),
    "pipeline.steps.resolve.cited_work:with_answer": lambda text: cited_work.with_answer(
        {"text": text, "title": text, "authors": [text], "venue": text, "year": 2001},
        "crossref",
        Paper(title=text[1:], authors=(text,), venue=text[1:], year=2002),
    ),
    "pipeline.steps.metadata.of_paper:of_paper": lambda text: of_paper.of_paper(text, in_info(text)),
    "pipeline.steps.metadata.candidates:candidate*": lambda text: list(
        candidates.candidates(dict.fromkeys(candidates.FIELDS, text) | {"authors": [text]}, "printed", 0.5)
    ),
    "pipeline.intake:parse_remote_item": behind(intake.parse_remote_item, *ITEMS, most=MAX_LENGTH),
    "pipeline.steps.fetch.download:_check_declared_size": lambda text: download._check_declared_size(
        with_header("content-length", text), 10**9
    ),
    "pipeline.steps.fetch.download:_result": lambda text: [
        download._result(with_header(name, text)) for name in ("content-type", "etag", "last-modified")
    ],
    "pipeline.steps.fetch.resume:strong_etag": lambda text: [
        resume.strong_etag(with_header("etag", f'"{text}"')),
        resume.strong_etag(with_header("content-encoding", text)),
    ],
    "pipeline.steps.fetch.resume:whole_size": lambda text: [
        resume.whole_size(with_header("content-range", beginning + text), 1, '"a"')
        for beginning in ("", "bytes ", "bytes 1-9/")
    ],
    "pipeline.steps.http.decompress:Decompressor.__init__": behind(
        decompress.Decompressor, "", "gzip,", "," * 999, "identity, " * 99
    ),
    "pipeline.steps.http.failure:retry_after_of": lambda text: [
        failure.retry_after_of(with_header(name, text)) for name in ("retry-after", "date")
    ],
    "pipeline.steps.http.failure:_refused": lambda text: failure.failed(
        "http://a.org/", httpx.Response(404, extensions={"reason_phrase": in_bytes(text)})
    ),
    "pipeline.steps.llm.response:wait_of": lambda text: [
        response.wait_of(with_header(name, text)) for name in ("retry-after-ms", "retry-after", "date")
    ],
    "pipeline.steps.ocr.tesseract:text_of": lambda text: tesseract.text_of(in_bytes(text)),
    "pipeline.steps.ocr.vision_client:text_in": lambda text: [
        vision_client.text_in(answered(text, ended), ENDPOINT) for ended in ("stop", "length")
    ],
    "pipeline.steps.pdf.sandbox:parsed": in_json(sandbox.parsed, as_bytes=True),
    "pipeline.steps.analyse.chunks:plan_chunks": lambda text: chunks.plan_chunks(storable(text), 8000),
    "pipeline.steps.analyse.extractive:frequent_terms": lambda text: extractive.frequent_terms(
        text[: extractive.MAX_CHARS]
    ),
    "pipeline.steps.analyse.split_by_tokens:cuts_of": lambda text: split_by_tokens.cuts_of(
        chunks.without_endless_runs(storable(text)), 8000
    ),
    "pipeline.steps.analyse.split_by_tokens:tokens_in": lambda text: split_by_tokens.tokens_in(
        chunks.without_endless_runs(storable(text))[:LONG_PROMPT], LONG_PROMPT
    ),
    "pipeline.steps.extract.page_ranges:one_range": lambda text: page_ranges.one_range("1-" + text[:9], text),
    "pipeline.steps.extract.page_ranges:pages_of": lambda text: page_ranges.pages_of(page_list(text), 9),
    "pipeline.steps.extract.page_ranges:parse_ranges": lambda text: page_ranges.parse_ranges(page_list(text)),
    "pipeline.steps.extract.page_lines:without_numbers": lambda text: list(
        page_lines.without_numbers(*page_lines.pages_of(text))
    ),
    "pipeline.steps.extract.reference_entries:chain": lambda text: [
        reference_entries.chain(text.split("\n"), pattern) for pattern in reference_entries.NUMBERED.values()
    ],
    "pipeline.steps.fetch.landing_page:stated_by": lambda text: landing_page.stated_by(
        {name: [text] for name in (*landing_page.TAGS, "authors", "date", "keywords")}
    ),
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
    "pipeline.steps.analyse.custom_schema:read_schema": lambda text: tried(
        custom_schema.read_schema, [text, *schemas_with(text)]
    ),
    "pipeline.steps.analyse.custom_schema:extracted": lambda text: [
        custom_schema.extracted(each, SCHEMA)
        for each in ({"a": text}, {"a": text[:8_000], "b": text.split("\n")}, {text: {text: text}})
    ],
    "pipeline.steps.analyse.answers:salvaged": lambda text: tried(
        answers.salvaged, [json.dumps({**analysis("a"), "data": [text, *text.split("\n")]}), text]
    ),
    "pipeline.steps.analyse.analysis:claims_in": lambda text: list(
        claims_in({kind: [text, {"text": text, "quote": text, "verdict": text}] for kind in KINDS})
    ),
    "pipeline.steps.analyse.quotes:PaperText.*": lambda text: quotes.places(text, [(text, 1), ("abc", 2)]),
    "pipeline.steps.analyse.quotes:places": lambda text: quotes.places(
        text, [(text[at : at + 600], at) for at in range(0, 9_000, 300)]
    ),
    "pipeline.steps.analyse.marked_text:marked_pieces": lambda text: marked_text.marked_pieces(
        text, [*range(100, len(text), 100), len(text)]
    ),
    "pipeline.steps.resolve.sources.json_fields:record": lambda text: json_fields.record({"a": text}, "a"),
    "pipeline.steps.resolve.sources.json_fields:record_of": in_json(
        lambda body: json_fields.record_of(body, "a"), as_bytes=True
    ),
    "pipeline.steps.http.redirects:RedirectChain.from_context": lambda text: (
        redirects.RedirectChain.from_context(text, {})
    ),
    "pipeline.steps.llm.endpoint:Dialect.after": lambda text: endpoint.Dialect().after(text),
    "pipeline.steps.llm.endpoint:Dialect.format": lambda text: endpoint.Dialect().format({"name": text}),
    "pipeline.steps.llm.response:answer_of": in_json(
        lambda body: response.answer_of(of_status(200, body), ENDPOINT)
    ),
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
    "pipeline.steps.report.stated_fields:reference_of": lambda text: (
        stated_fields.reference_of(
            {
                "text": text,
                "title": text,
                "sources": {"title": text},
                "conflicts": [{"field": "title", "value": text}],
            }
        ).looked_up
    ),
    "pipeline.steps.closing_brackets:without_closing": lambda text: closing_brackets.without_closing(
        text, ".,;", {")": "(", "]": "[", ">": "<"}
    ),
    "pipeline.steps.grobid.tei:references_in": lambda text: tei.references_in(as_tei(text)),
    "pipeline.steps.http.bounded_xml:root_of": lambda text: bounded_xml.root_of(
        f"<a>{in_xml(text)}</a>".encode(), "a server", "a feed"
    ),
    "pipeline.steps.resolve.sources.arxiv:_read": lambda text: arxiv._read(as_feed(text), PAPER),
    "pipeline.steps.resolve.sources.crossref:_read": source(crossref._read),
    "pipeline.steps.resolve.sources.openalex:_read": source(openalex._read),
    "pipeline.steps.resolve.sources.semanticscholar:_read": source(semanticscholar._read),
    "pipeline.steps.resolve.sources.unpaywall:_read": source(unpaywall._read),
    "pipeline.steps.llm.response:read_by": in_json(
        lambda body: response.read_by(of_status(400, body), ENDPOINT, [{"content": body[:9000]}])
    ),
    "pipeline.steps.llm.response:json_of": in_json(lambda body: response.json_of(of_status(200, body))),
    "pipeline.web.admin:linked": lambda text: admin.linked(text, text),
    "pipeline.web.admin:cells": lambda text: admin.cells("td", [text]),
    "pipeline.web.admin:table": lambda text: admin.table(["a"], [[line] for line in text.split("\n")[:99]]),
    "pipeline.web.collection_view:CollectionQuery.__init__": lambda text: collection_view.CollectionQuery(
        {"status": text, "kind": text, "q": text, "sort": text, "page": text}
    ).address(),
}
"""By name; also of some that take what holds a text."""
