"""References read by a GROBID server: under its limit, bounded, and never without our own reading."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pipeline.models import Document
from pipeline.steps.grobid import service
from pipeline.steps.resolve.sources import request
from pipeline.tasks import grobid
from pipeline.tasks.documents import load
from queuemgr import Work
from queuemgr.models import Execution, Lease, LimitState, State
from tests import pdf_builder
from tests.integration.pipeline.papers_fixtures import Papers
from tests.unit.pipeline.steps.test_grobid import entry, tei

pytestmark = pytest.mark.django_db(transaction=True)

LIST = (
    "Gates in rivers hold the water back until somebody opens them again.", "References",
    "[1] A. Abel, Gates that leak, J. Water 4, 12 (2009). doi:10.5555/a1",
    "[2] B. Bebel, Gates that hold, J. Water 5, 13 (2010). doi:10.5555/b2",
)  # fmt: skip
THREE = tei(*(entry(family=name, title=f"Gates of {name}") for name in ("Abel", "Bebel", "Cadel")))

Answer = tuple[int, bytes, dict[str, str]]


class Grobid:
    """A server that answers one request after another with these; the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.posted, self.held = list(answers), [], []  # type: tuple[list[Answer], list[bytes], list[str]]
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/grobid"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(grobid) -> type[BaseHTTPRequestHandler]:  # `self` is the handler
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._give(200, b'{"version":"0.8.2","revision":"abc"}', {})

            def do_POST(self) -> None:
                grobid.posted.append(self.rfile.read(int(self.headers["Content-Length"])))
                grobid.held.append(Lease.objects.get().limit_keys)
                status, body, headers = grobid.answers.pop(0) if grobid.answers[1:] else grobid.answers[0]
                if status == 0:
                    grobid.released.wait(60)
                    return
                self._give(status, body, headers)

            def _give(self, status: int, body: bytes, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@pytest.fixture
def answering(set_settings: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made = []

    def start(*answers: Answer) -> Grobid:
        made.append(Grobid(*answers))
        set_settings(grobid_url=made[0].url, metadata_sources="none", grobid_timeout=30)
        return made[0]

    monkeypatch.setattr(grobid, "PAUSE", 0.0)
    yield start
    for server in made:
        server.close()


def by_of(document: Document) -> dict[str, Any]:
    return dict(document.references_by or {})


def read(papers: Papers, folder: Path) -> tuple[Document, list[dict[str, Any]], dict[str, Any]]:
    """The document, its stored references and its report, run to its end."""
    whole = pdf_builder.document([pdf_builder.text_content(*LIST)])
    papers.parse_item(pdf_builder.written(folder, whole, "a.pdf"))
    papers.work()
    assert set(Execution.objects.values_list("state", flat=True)) == {State.DONE}
    found = Document.objects.get()
    lines = Path(found.references_file.path).read_text().splitlines()
    return found, [json.loads(line) for line in lines], json.loads(Path(found.report_json.path).read_text())


def test_the_references_are_grobid_s_and_the_report_shows_that_we_count_others(
    papers: Papers, answering: Callable[..., Grobid], tmp_path: Path
) -> None:
    server = answering((200, THREE, {}))
    document, references, report = read(papers, tmp_path)
    assert [each["authors"] for each in references] == [["Abel, Ada"], ["Bebel, Ada"], ["Cadel, Ada"]]
    assert document.references == 3
    assert document.references_by == {"method": "read by GROBID 0.8.2", "printed": 2}
    assert report["references"]["by"] == document.references_by
    assert "read by GROBID 0.8.2; read from the print: 2" in Path(document.report_markdown.path).read_text()
    assert b"%PDF-" in server.posted[0] and b"includeRawCitations" in server.posted[0]
    assert server.held == ["resolver:grobid"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((200, THREE[:-40], {}), "GROBID sent no TEI document"),
        ((204, b"", {}), "found no references"),
        ((200, THREE * 40, {}), "sent more than"),
        ((302, b"", {"Location": "/elsewhere"}), "redirects"),
        ((500, b"", {}), "answered 500"),
    ],
    ids=["truncated", "nothing", "huge", "moved", "failed"],
)  # fmt: skip
def test_an_answer_that_does_not_do_leaves_our_own_reading_and_says_why(
    answer: Answer, reason: str, papers: Papers, answering: Callable[..., Grobid], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(request, "MAX_BYTES", 20_000)
    server = answering(answer)
    document, references, _ = read(papers, tmp_path)
    assert [each["doi"] for each in references] == ["10.5555/a1", "10.5555/b2"] and document.references == 2
    assert by_of(document)["method"] == "read from the print"
    assert reason in by_of(document)["reason"]
    assert reason in Path(document.report_markdown.path).read_text()
    assert len(server.posted) == 1, "it would fail again"


def test_a_paper_of_which_ocr_has_read_a_page_is_not_sent(
    papers: Papers, answering: Callable[..., Grobid], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scanned(work: Work) -> Document:
        document = load(work)
        document.pages_by = {"pdfium": 1, "ocr": 1}
        return document

    monkeypatch.setattr(grobid, "load", scanned)
    server = answering((200, THREE, {}))
    document, references, _ = read(papers, tmp_path)
    assert not server.posted and len(references) == document.references == 2
    assert by_of(document) == {"method": "read from the print", "reason": grobid.BY_OCR}


def test_a_busy_server_is_asked_again_and_then_left_alone(
    papers: Papers, answering: Callable[..., Grobid], tmp_path: Path
) -> None:
    server = answering((503, b"", {}))
    document, references, _ = read(papers, tmp_path)
    assert len(server.posted) == grobid.MOST_FAILURES and len(references) == 2
    assert "asked 3 times" in by_of(document)["reason"]
    assert not LimitState.objects.filter(open_until__isnull=False).exists()


def test_a_busy_server_that_is_free_again_reads_the_paper(
    papers: Papers, answering: Callable[..., Grobid], tmp_path: Path
) -> None:
    answering((503, b"", {}), (429, b"", {"Retry-After": "0"}), (200, THREE, {}))
    assert read(papers, tmp_path)[0].references == 3


def test_a_refusal_reaches_the_limit_and_the_paper_does_not_wait_for_hours(
    papers: Papers, answering: Callable[..., Grobid], tmp_path: Path
) -> None:
    server = answering((429, b"", {"Retry-After": "7200"}))
    document, references, _ = read(papers, tmp_path)
    assert len(server.posted) == 1 and len(references) == 2
    assert "429" in by_of(document)["reason"]
    assert LimitState.objects.get(name="resolver:grobid").open_until is not None


def test_a_slow_answer_and_a_large_pdf_leave_our_own_reading(
    papers: Papers, answering: Callable[..., Grobid], tmp_path: Path, set_settings: Callable[..., None],
) -> None:  # fmt: skip
    server = answering((0, b"", {}))
    set_settings(grobid_timeout=0.2)
    document, references, _ = read(papers, tmp_path)
    assert "exceeded the total time" in by_of(document)["reason"] and len(references) == 2
    assert len(server.posted) <= 1


def test_a_pdf_that_is_too_large_is_not_sent(
    papers: Papers, answering: Callable[..., Grobid], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_PDF", 100)
    server = answering((200, THREE, {}))
    document, _, _ = read(papers, tmp_path)
    assert "larger than" in by_of(document)["reason"] and not server.posted
