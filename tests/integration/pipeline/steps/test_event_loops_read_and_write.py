"""No event loop parses or unpacks what came from outside: meanwhile it would do nothing else."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import quote

import pytest

from pipeline.steps.analyse.analyse import AnalyseOptions, analyse
from pipeline.steps.fetch.fetch import OtherHost, fetch
from pipeline.steps.http.client import HttpClient
from pipeline.steps.http.decompress import Decompressor
from pipeline.steps.identify import identify
from pipeline.steps.llm.endpoint import Endpoint
from pipeline.steps.resolve.resolve import SOURCES
from pipeline.steps.resolve.sources.query import query_source
from pipeline.steps.resolve.sources.source import ResolveOptions
from queuemgr import StepFailed
from queuemgr.flows.abort_signal import NEVER
from tests.fake_llm import GOOD, FakeLlm
from tests.integration.pipeline.steps import ocr_endpoint
from tests.integration.pipeline.steps.downloads import LOCAL
from tests.integration.pipeline.steps.faulty_server import FaultyServer
from tests.integration.pipeline.steps.ocr_endpoint import VisionEndpoint
from tests.integration.pipeline.steps.test_ocr_remote import read
from tests.papers import PAPER
from tests.watched_calls import watched_calls

ON_A_LOOP: Mapping[str, str] = {
    "pipeline.steps.http.safe_addresses:*": "of a URL, which httpx has bounded",
    "pipeline.steps.http.redirects:*": "of a URL, which httpx has bounded",
    "pipeline.steps.identify:host_key": "of a URL, which httpx has bounded",
    "queuemgr.steptools.retry_after:*": "of a header, which h11 bounds",
    "pipeline.steps.http.failure:*": "of a header, which h11 bounds",
    "pipeline.steps.http.decompress:Decompressor.__init__": "of a header, which h11 bounds",
    "pipeline.steps.fetch.resume:strong_etag": "of a header, which h11 bounds",
    "pipeline.steps.fetch.download:_check_declared_size": "of a header, which h11 bounds",
    "pipeline.steps.fetch.download:_result": "of headers, which h11 bounds",
    "pipeline.steps.http.decompress:Decompressor.feed": "makes a generator, which a thread asks",
    "pipeline.steps.fetch.partial_file:is_page": "of the first bytes",
    "pipeline.steps.fetch.partial_file:_look": "of the first bytes",
    "pipeline.steps.analyse.prompts:*": "puts texts together, and looks at none",
    "pipeline.steps.llm.endpoint:Dialect.format": "of our own schema",
    "pipeline.steps.llm.usage:most_plausible": "counts the bytes of a text, a million in a millisecond",
    "pipeline.steps.http.shown:shown": "of a URL, which httpx has bounded",
}
"""What a loop may do itself, and why."""

DOI = identify("10.1000/182")


@contextmanager
def a_client() -> Iterator[HttpClient]:
    """One whose loop begins only now."""
    client = HttpClient()
    try:
        yield client
    finally:
        client.close()


def ask_a_model(faulty: FaultyServer, folder: Path) -> None:
    model = FakeLlm()
    try:
        options = AnalyseOptions(endpoint=Endpoint(model.base_url, "m-1", "sk-key", timeout=5))
        model.say("<think>{}</think> no")
        model.say(GOOD)
        analyse(PAPER, "", options, NEVER)
        for status in (400, 429, 500):
            model.refuse(status, f"no: {PAPER}", code="rate_limit", type="slow")
            with suppress(StepFailed):
                analyse(PAPER, "", options, NEVER)
    finally:
        model.close()


def ask_a_vision_model(faulty: FaultyServer, folder: Path) -> None:
    with VisionEndpoint().serving() as vision:
        vision.next_for[1] = [ocr_endpoint.error(429, "slow down"), ocr_endpoint.plain("b" * 900, "length")]
        vision.next_for[2] = [ocr_endpoint.plain("---\nbroken"), ocr_endpoint.text("page 2")]
        read(vision, folder, pages=2)


def ask_a_source(faulty: FaultyServer, folder: Path) -> None:
    options = ResolveOptions(contact_email="papers@example.org", deadline=5.0, crossref_url=faulty.url("/"))
    faulty.put("/works/10.1000%2F182", {"message": {"title": ["A <i>paper</i>"], "DOI": "10.1000/182"}})
    with a_client() as http:
        query_source(SOURCES["crossref"], DOI, options, http, NEVER, "")


def download(faulty: FaultyServer, folder: Path) -> None:
    tag = '<meta content="/gzip" name="citation_pdf_url">'
    page = quote(f"<!DOCTYPE html><html><head><title>A</title>{tag}</head>", safe="")
    path = f"/body?type=text/html&text={page}"
    with a_client() as http:
        fetch(faulty.url("/to?url=" + quote(faulty.url(path), safe="")), folder, LOCAL, http, NEVER)
        for failing in ("/status?code=429&retry-after=7", "/packed?as=gzip", path.replace("citation", "no")):
            with suppress(StepFailed, OtherHost):
                fetch(faulty.url(failing), folder, LOCAL, http, NEVER)


WORK: Mapping[str, Callable[[FaultyServer, Path], None]] = {
    "a model": ask_a_model,
    "a vision model": ask_a_vision_model,
    "a source": ask_a_source,
    "a download": download,
}
"""What has an event loop."""

CALLED = {
    "a model": {"llm.response:json_of", "llm.response:without_echo", "analyse.answers:parsed"},
    "a vision model": {"ocr.vision_response:parsed", "ocr.vision_response:is_repetitive"},
    "a source": {"resolve.sources.json_fields:record_of"},
    "a download": {"http.decompress:_Layer._feed"},
}
"""What it must have called, elsewhere."""


@pytest.mark.parametrize("work", WORK)
def test_no_event_loop_reads_what_came_from_outside(work: str, faulty: FaultyServer, into: Path) -> None:
    with watched_calls(asyncio._get_running_loop) as seen:
        WORK[work](faulty, into)
    assert {f"pipeline.steps.{name}" for name in CALLED[work]} <= seen.all
    assert {name for name in seen.wrongly if not any(fnmatch(name, each) for each in ON_A_LOOP)} == set()


def test_many_empty_parts_in_several_layers_are_unpacked_a_little_at_a_time() -> None:
    """So that a cancel takes effect between two of them: they may expand to hours of work and no byte."""
    packed = gzip.compress(gzip.compress(b"") * 100_000)
    pieces = Decompressor("gzip, gzip").feed(packed)
    assert [next(pieces) for _ in range(1000)] == [b""] * 1000
