"""A cancel takes effect within two seconds in every step of papers, whatever the step is at."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, NamedTuple

import pytest
from django.core.files.base import ContentFile

from pipeline.flows import PAPERS
from pipeline.models import Document
from queuemgr import AbortSignal
from queuemgr.flows.outcomes import Done, Interrupted, Result
from queuemgr.models import Limit
from tests import pdf_builder
from tests.integration.pipeline.step_fixtures import StepRunner
from tests.integration.pipeline.steps.ocr_endpoint import numbered_pages

pytestmark = pytest.mark.django_db(transaction=True)

WITHIN = 2.0

ENDLESS = "Words of a text that has no end, and a number such as 2004. " * 80_000
"""Five million characters, as many as are read of a document."""

ENTRIES = "".join(json.dumps({"text": f"[{n}] *A*. <b>Abel</b> {n}_|` " * 3}) + "\n" for n in range(60_000))

ANALYSIS = {"title": "T", "summary": "S", "keywords": [], "contributions": []}


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


Prepared = Mapping[str, Any]
"""What the context of the step has."""


@pytest.fixture
def endless() -> Iterator[int]:
    """The port of a server that sends a PDF without an end, a few megabytes in a second."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=send_for_ever, args=[server], daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def send_for_ever(server: socket.socket) -> None:
    with suppress(OSError):
        connection, _ = server.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n%PDF-1.7\n")
            while True:
                connection.sendall(b"x" * 65_536)
                time.sleep(0.02)


def at_a_silent_source(port: int, set_settings: Callable[..., None]) -> Prepared:
    url = f"http://127.0.0.1:{port}"
    set_settings(resolvers="crossref", crossref_url=url, allow_private_addresses=True)
    Document.objects.create(key="k", kind="doi", source="10.1000/1")
    return {"resolver": "crossref"}


def at_a_silent_host(port: int, set_settings: Callable[..., None]) -> Prepared:
    set_settings(allow_private_addresses=True)
    url = f"http://127.0.0.1:{port}/a.pdf"
    Document.objects.create(key="k", kind="url", source=url, pdf_url=url)
    return {"host_key": f"host:127.0.0.1:{port}"}


def at_a_host_with_an_endless_file(port: int, set_settings: Callable[..., None]) -> Prepared:
    return at_a_silent_host(port, set_settings)


def with_endless_operators(port: int, set_settings: Callable[..., None]) -> Prepared:
    document = Document.objects.create(key="k", kind="file", source="/k.pdf")
    document.pdf.save("k.pdf", ContentFile(pdf_builder.document([pdf_builder.operators()])))
    return {}


def at_a_silent_vision_model(port: int, set_settings: Callable[..., None]) -> Prepared:
    url = f"http://127.0.0.1:{port}/v1"
    set_settings(ocr_base_url=url, ocr_model="v-1", ocr_api_key="key-of-ocr", allow_private_addresses=True)
    document = Document.objects.create(key="k", kind="file", source="/k.pdf", pages=1)
    document.pdf.save("k.pdf", ContentFile(numbered_pages(1)))
    page = {"number": 1, "text": "", "source": "pypdf"}
    document.pages_file.save("k.jsonl", ContentFile(json.dumps(page).encode() + b"\n"))
    return {"pages_without_text": [1]}


def with_many_scanned_pages(port: int, set_settings: Callable[..., None]) -> Prepared:
    set_settings(ocr_engine=available_engine(), ocr_base_url="")
    pages = range(1, 301)
    document = Document.objects.create(key="k", kind="file", source="/k.pdf", pages=len(pages))
    document.pdf.save("k.pdf", ContentFile(numbered_pages(len(pages))))
    records = [{"number": number, "text": "", "source": "pypdf"} for number in pages]
    document.pages_file.save("k.jsonl", ContentFile("\n".join(map(json.dumps, records)).encode()))
    return {"pages_without_text": list(pages)}


def available_engine() -> str:
    if find_spec("rapidocr"):
        return "rapidocr"
    if shutil.which("tesseract"):
        return "tesseract"
    pytest.skip("no local engine is installed")


def at_a_silent_model(port: int, set_settings: Callable[..., None]) -> Prepared:
    url = f"http://127.0.0.1:{port}/v1"
    set_settings(llm_base_url=url, llm_model="m-1", llm_api_key="key-of-llm")
    document = Document.objects.create(key="k", kind="file", source="/k.pdf")
    document.text.save("k.txt", ContentFile(ENDLESS[:9000].encode()))
    return {}


def with_an_endless_text(port: int, set_settings: Callable[..., None]) -> Prepared:
    document = Document.objects.create(key="k", kind="file", source="/k.pdf")
    document.text.save("k.txt", ContentFile(ENDLESS.encode()))
    return {}


def with_endless_references(port: int, set_settings: Callable[..., None]) -> Prepared:
    document = Document.objects.create(key="k", kind="file", source="/k.pdf", analysis=ANALYSIS)
    document.references_file.save("k.jsonl", ContentFile(ENTRIES.encode()))
    return {}


class Given(NamedTuple):
    step: str
    prepare: Callable[[int, Callable[..., None]], Prepared]
    ends_before: bool = False
    """Whether it ends by itself, and must: it is never cancelled, so no more is shown of it."""

    after: float = 1.0
    """Seconds until it is cancelled."""


HOSTILE: Mapping[str, Given] = {
    "a silent source": Given("resolve", at_a_silent_source),
    "a silent host": Given("fetch", at_a_silent_host),
    "an endless file": Given("fetch", at_a_host_with_an_endless_file),
    "endless operators": Given("extract", with_endless_operators),
    "a silent vision model": Given("ocr", at_a_silent_vision_model),
    "many scanned pages": Given("ocr", with_many_scanned_pages),
    "a silent model": Given("analyse", at_a_silent_model),
    "an endless text": Given("analyse", with_an_endless_text, after=0.2),
    "endless references": Given("report", with_endless_references, ends_before=True),
}
"""What each step is given: a new step needs an entry."""


def test_every_step_is_given_something_hostile() -> None:
    assert {given.step for given in HOSTILE.values()} == {ref.step.name for ref in PAPERS.steps()}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_cancel_takes_effect_within_two_seconds(
    what: str, silent: int, endless: int, set_settings: Callable[..., None], played: Callable[..., Any]
) -> None:
    given = HOSTILE[what]
    runner = StepRunner(played(slots=1))
    Limit.objects.filter(name__startswith="resolver:").update(rate="", max_running=4)
    runner.phase = next(ref.phase.name for ref in PAPERS.steps() if ref.step.name == given.step)
    runner.step = given.step
    runner.enqueue("k", given.prepare(endless if "file" in what else silent, set_settings))
    (grant,) = runner.begin()
    after = 30.0 if given.ends_before else given.after
    result, late = cancelled(lambda signal: runner.run(grant, signal), after)
    if given.ends_before:
        assert isinstance(result, Done) and late is None
    else:
        assert isinstance(result, Interrupted) and late is not None, result
        assert late <= WITHIN


def cancelled(run: Callable[[AbortSignal], Result], after: float) -> tuple[Result, float | None]:
    """Run a step, cancel it, and say how long after that it ended: None, if it had ended before."""
    signal, at = AbortSignal(), []

    def cancel() -> None:
        at.append(time.monotonic())
        signal.abort("cancelled")

    timer = threading.Timer(after, cancel)
    timer.start()
    result = run(signal)
    ended = time.monotonic()
    timer.cancel()
    return result, next((ended - moment for moment in at), None)
