"""A cancel takes effect within two seconds in every step of papers, whatever the step is at."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from typing import Any, NamedTuple

import pytest
from django.core.files.base import ContentFile

from pipeline.flows import PAPERS
from pipeline.models import Document
from pipeline.steps.analyse import analyse
from pipeline.steps.fetch import download
from pipeline.steps.pdf import text_child
from pipeline.steps.pdf.text_sandbox import read_in_child
from pipeline.tasks import pages
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

ANALYSIS = {"title": "T", "summary": "S", "keywords": [], "contributions": []}


Prepared = Mapping[str, Any]
"""What the context of the step has."""

Serve = Callable[[socket.socket], object]


def silence(connection: socket.socket) -> None:
    """Take the request and never answer."""
    while connection.recv(65_536):
        pass


def endless_file(connection: socket.socket) -> None:
    """A PDF without an end, a few megabytes in a second."""
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n%PDF-1.7\n")
    while True:
        connection.sendall(b"x" * 65_536)
        time.sleep(0.02)


def endless_head(connection: socket.socket) -> None:
    """The head of an answer, a letter at a time."""
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-A: ")
    one_by_one(connection)


def endless_answer(connection: socket.socket) -> None:
    """An answer of JSON, a letter at a time."""
    connection.recv(65_536)
    connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"a": "')
    one_by_one(connection)


def one_by_one(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"x")
        time.sleep(0.02)


def landing_page(connection: socket.socket) -> None:
    """A page that names a PDF."""
    connection.recv(65_536)
    page = b"<html><meta name=citation_pdf_url content=/b.pdf>" + b"<p>words</p>" * 1_000
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + page)


def tei(connection: socket.socket) -> None:
    """The references of a paper, as GROBID answers once it has read all of the form."""
    while (part := connection.recv(65_536)) and not part.endswith(b"--\r\n"):
        pass
    entry = b"<biblStruct><note type='raw_reference'>A. Abel, 10.1000/a</note></biblStruct>" * 100
    root = b"<TEI xmlns='http://www.tei-c.org/ns/1.0'><text><back><div><listBibl>"
    ends = b"</listBibl></div></back></text></TEI>"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nConnection: close\r\n\r\n"
    connection.sendall(head + root + entry + ends)


@pytest.fixture
def server() -> Iterator[Callable[[Serve], int]]:
    """Starts a server that speaks like this to whoever connects; gives its port."""
    with ExitStack() as ends:
        yield lambda speak: ends.enter_context(serving(speak))


@contextmanager
def serving(speak: Serve) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve_each, args=[listening, speak], daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def serve_each(listening: socket.socket, speak: Serve) -> None:
    """One after another, each until it hangs up."""
    with suppress(OSError):
        while True:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                speak(connection)


def at_a_source(port: int, set_settings: Callable[..., None]) -> Prepared:
    url = f"http://127.0.0.1:{port}"
    set_settings(resolvers="crossref", crossref_url=url, allow_private_addresses=True)
    Document.objects.create(key="k", kind="doi", source="10.1000/1")
    return {"resolver": "crossref"}


def with_a_printed_doi(port: int, set_settings: Callable[..., None]) -> Prepared:
    set_settings(crossref_url=f"http://127.0.0.1:{port}", allow_private_addresses=True)
    stated = [{"field": "doi", "value": "10.1000/1", "source": "printed", "confidence": 0.9}]
    Document.objects.create(key="k", kind="file", source="k", metadata=stated)
    return {"resolver": "crossref", "services_left": ["crossref"]}


def with_a_printed_reference(port: int, set_settings: Callable[..., None]) -> Prepared:
    set_settings(crossref_url=f"http://127.0.0.1:{port}", allow_private_addresses=True)
    document = Document.objects.create(key="k", kind="file", source="/k.pdf")
    document.references_file.save("k.jsonl", ContentFile(b'{"text": "A. Abel", "doi": "10.1000/1"}\n'))
    return {"resolver": "crossref", "references_to_look_up": 1}


def at_grobid(port: int, set_settings: Callable[..., None]) -> Prepared:
    set_settings(grobid_url=f"http://127.0.0.1:{port}", allow_private_addresses=True)
    document = Document.objects.create(key="k", kind="file", source="/k.pdf")
    document.pdf.save("k.pdf", ContentFile(numbered_pages(1)))
    return {"grobid": True}


def at_a_host(port: int, set_settings: Callable[..., None]) -> Prepared:
    set_settings(allow_private_addresses=True)
    url = f"http://127.0.0.1:{port}/a.pdf"
    Document.objects.create(key="k", kind="url", source=url, pdf_url=url)
    return {"host_key": f"host:127.0.0.1:{port}"}


def with_endless_operators(port: int, set_settings: Callable[..., None]) -> Prepared:
    document = Document.objects.create(key="k", kind="file", source="/k.pdf")
    document.pdf.save("k.pdf", ContentFile(pdf_builder.document([pdf_builder.operators()])))
    return {}


def at_a_vision_model(port: int, set_settings: Callable[..., None]) -> Prepared:
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


def with_read_pages(port: int, set_settings: Callable[..., None]) -> Prepared:
    document = Document.objects.create(key="k", kind="file", source="/k.pdf", pages=1)
    document.pdf.save("k.pdf", ContentFile(numbered_pages(1)))
    page = {"number": 1, "text": ENDLESS[:9000], "source": "pypdf"}
    document.pages_file.save("k.jsonl", ContentFile(json.dumps(page).encode() + b"\n"))
    return {"pages_without_text": []}


LINES = ["Gates in rivers hold the water back until somebody opens them again."] * 2_000
"""Of which the reader has more to do than a cancel takes to arrive."""


def with_a_page_of_text(port: int, set_settings: Callable[..., None]) -> Prepared:
    document = Document.objects.create(key="k", kind="file", source="/k.pdf")
    document.pdf.save("k.pdf", ContentFile(pdf_builder.document([pdf_builder.text_content(*LINES)])))
    return {}


def at_a_model(port: int, set_settings: Callable[..., None], text: str = ENDLESS[:9000]) -> Prepared:
    url = f"http://127.0.0.1:{port}/v1"
    set_settings(llm_base_url=url, llm_model="m-1", llm_api_key="key-of-llm")
    document = Document.objects.create(key="k", kind="file", source="/k.pdf")
    document.text.save("k.txt", ContentFile(text.encode()))
    return {}


def at_a_model_with_an_endless_text(port: int, set_settings: Callable[..., None]) -> Prepared:
    return at_a_model(port, set_settings, ENDLESS)


def with_an_endless_text(port: int, set_settings: Callable[..., None]) -> Prepared:
    document = Document.objects.create(key="k", kind="file", source="/k.pdf")
    document.text.save("k.txt", ContentFile(ENDLESS.encode()))
    return {}


def with_endless_references(port: int, set_settings: Callable[..., None]) -> Prepared:
    document = Document.objects.create(key="k", kind="file", source="/k.pdf", analysis=ANALYSIS)
    entries = (json.dumps({"text": f"[{n}] *A*. <b>Abel</b> {n}_|` " * 3}) + "\n" for n in range(60_000))
    document.references_file.save("k.jsonl", ContentFile("".join(entries).encode()))
    return {}


class Given(NamedTuple):
    step: str
    prepare: Callable[[int, Callable[..., None]], Prepared]
    serve: Serve = silence
    ends_before: bool = False
    """Whether it ends by itself, and must: it is never cancelled, so no more is shown of it."""

    in_child: str = ""
    """The function of `text_child.py` at whose start it is cancelled; else after a second."""


HOSTILE: Mapping[str, Given] = {
    "a silent source": Given("resolve", at_a_source),
    "a source with an endless head": Given("resolve", at_a_source, endless_head),
    "a source with an endless answer": Given("resolve", at_a_source, endless_answer),
    "a silent service": Given("metadata", with_a_printed_doi),
    "a service with an endless answer": Given("metadata", with_a_printed_doi, endless_answer),
    "a service with an endless answer about a reference": Given(
        "references", with_a_printed_reference, endless_answer
    ),
    "a silent GROBID": Given("grobid", at_grobid),
    "GROBID with an endless answer": Given("grobid", at_grobid, endless_answer),
    "references by GROBID": Given("grobid", at_grobid, tei, in_child="tei"),
    "a silent host": Given("fetch", at_a_host),
    "a host with an endless head": Given("fetch", at_a_host, endless_head),
    "an endless file": Given("fetch", at_a_host, endless_file),
    "a slow file": Given("fetch", at_a_host, endless_answer),
    "a page instead of a file": Given("fetch", at_a_host, landing_page, in_child="landing_page"),
    "endless operators": Given("extract", with_endless_operators),
    "a text layer": Given("extract", with_a_page_of_text, in_child="paper"),
    "a silent vision model": Given("ocr", at_a_vision_model),
    "a vision model with an endless answer": Given("ocr", at_a_vision_model, endless_answer),
    "many scanned pages": Given("ocr", with_many_scanned_pages),
    "pages that are read": Given("ocr", with_read_pages, in_child="paper"),
    "a silent model": Given("analyse", at_a_model),
    "a model with an endless head": Given("analyse", at_a_model, endless_head),
    "a model with an endless answer": Given("analyse", at_a_model, endless_answer),
    "an endless text": Given("analyse", with_an_endless_text, in_child="sentences"),
    "an endless text for a model": Given(
        "analyse", at_a_model_with_an_endless_text, in_child="chunks_of_paper"
    ),
    "endless references": Given("report", with_endless_references, ends_before=True),
}
"""What each step is given: a new step needs an entry."""

BY_OTHER_TESTS = {"chunks", "tokens", "places"}
"""Functions of the text child that follow a refusal or an answer:
`test_a_cancel_ends_the_reading_of_a_text_at_once`."""


def test_every_step_is_given_something_hostile() -> None:
    assert {given.step for given in HOSTILE.values()} == {ref.step.name for ref in PAPERS.steps()}


def test_each_reading_of_a_text_is_cancelled() -> None:
    cancelled = {given.in_child for given in HOSTILE.values()} - {""}
    assert cancelled | BY_OTHER_TESTS == set(text_child.FUNCTIONS)


@pytest.mark.parametrize("what", HOSTILE)
def test_a_cancel_takes_effect_within_two_seconds(
    what: str,
    server: Callable[[Serve], int],
    set_settings: Callable[..., None],
    played: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = HOSTILE[what]
    runner = StepRunner(played(slots=1))
    Limit.objects.filter(name__startswith="resolver:").update(rate="", max_running=4)
    runner.phase = next(ref.phase.name for ref in PAPERS.steps() if ref.step.name == given.step)
    runner.step = given.step
    runner.enqueue("k", given.prepare(server(given.serve), set_settings))
    (grant,) = runner.begin()
    cancel = Cancel()
    if given.in_child:
        cancel_at(given.in_child, cancel, monkeypatch)
    result = cancel.run(lambda signal: runner.run(grant, signal), 30.0 if given.ends_before else 1.0)
    if given.ends_before:
        assert isinstance(result, Done) and cancel.late is None
    else:
        assert isinstance(result, Interrupted) and cancel.late is not None, result
        assert cancel.late <= WITHIN


def cancel_at(function: str, cancel: Cancel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel when the child that runs this function has started, which takes it longer."""

    def read(named: str, *args: Any, **arguments: Any) -> Any:
        assert named == function
        threading.Timer(0.02, cancel).start()
        return read_in_child(named, *args, **arguments)

    for module in (pages, analyse, download):
        monkeypatch.setattr(module, "read_in_child", read)


class Cancel:
    """Cancels a step, once, and measures how long after that it ended: None if it had ended before."""

    late: float | None = None

    def __init__(self) -> None:
        self._signal, self._at = AbortSignal(), list[float]()

    def __call__(self) -> None:
        self._at.append(time.monotonic())
        self._signal.abort("cancelled")

    def run(self, step: Callable[[AbortSignal], Result], after: float) -> Result:
        timer = threading.Timer(after, self)
        timer.start()
        result = step(self._signal)
        ended = time.monotonic()
        timer.cancel()
        self.late = next((ended - moment for moment in self._at), None)
        return result
