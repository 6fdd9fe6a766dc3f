"""Reports and the collection in a real browser: nothing a paper says runs, and all of it can be read."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from playwright.sync_api import Page, expect

from pipeline.models import Document
from pipeline.tasks.report import report_facts
from pipeline.web import collection_export
from pipeline.web.collection import Row
from pipeline.web.report_page import render_html
from tests import pdf_builder
from tests.browser.chromium import PASSWORD, log_in
from tests.browser.conftest import OpenPage
from tests.report_builder import FULL, HOSTILE, with_every_text

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ATTACK = (
    "<script>document.title = 'run'</script><img src='ELSEWHERE/seen' "
    "onerror=\"document.title = 'run'\"><a href=\"javascript:document.title = 'run'\">here</a>"
    "<link rel=stylesheet href='ELSEWHERE/style'><iframe src='ELSEWHERE/frame'></iframe>"
    "<form action='ELSEWHERE/form'><button>send</button></form>"
)
LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 3


class Elsewhere:
    """A server no page of ours may request anything from; it logs all requests."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.attack = ATTACK.replace("ELSEWHERE", self.url)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02])
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(elsewhere) -> type[BaseHTTPRequestHandler]:  # `self` is the handler
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                elsewhere.requests.append(self.path)
                self.send_error(404)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    server = Elsewhere()
    yield server
    server.close()


@pytest.fixture
def document(settings: Any, tmp_path: Path, elsewhere: Elsewhere) -> Document:
    """A paper of a hostile title; and, escaping having failed, a report that is a page of its own."""
    settings.MEDIA_ROOT = tmp_path / "files"
    User.objects.create_superuser("sam", password=PASSWORD)
    bad = elsewhere.attack
    name = default_storage.save("reports/r.html", ContentFile(f"<h1>report</h1>{bad}".encode()))
    return Document.objects.create(
        key="doi:10.1/x", kind="doi", source="x", title=bad[:500], report_html=name, enqueued=True,
        lookups=[{"source": bad, "status": bad}], analysis={"summary": bad}, pages_by={bad: 1},
        doi='javascript:alert("x")', problem=bad,
    )  # fmt: skip


@pytest.fixture
def page(document: Document, live_server: Any, open_page: OpenPage) -> Page:
    """A browser with scripts on, logged in."""
    page = open_page()
    log_in(page, live_server.url, "sam")
    return page


def click_whatever_it_offers(page: Page) -> None:
    """Click what an attack would have a reader click, where that is to be clicked at all."""
    for offered in (page.get_by_role("link", name="here"), page.get_by_role("button", name="send")):
        if offered.count():
            offered.first.click(no_wait_after=True)
    page.wait_for_timeout(300)


@pytest.mark.parametrize(
    "address", ["/documents/{pk}/page", "/admin/pipeline/document/{pk}/change/", "/papers/",
                "/admin/pipeline/document/"],
)  # fmt: skip
def test_no_text_of_a_paper_runs_loads_or_links_elsewhere(
    address: str, page: Page, document: Document, live_server: Any, elsewhere: Elsewhere
) -> None:
    """Not even in a report whose escaping had failed, since its policy forbids it."""
    page.goto(live_server.url + address.format(pk=document.pk))
    click_whatever_it_offers(page)
    assert page.title() != "run"
    assert elsewhere.requests == []


def test_a_report_has_an_opaque_origin_and_cannot_read_our_cookies(
    page: Page, document: Document, live_server: Any
) -> None:
    page.goto(f"{live_server.url}/documents/{document.pk}/page")
    assert page.evaluate("window.origin") == "null"


def test_a_report_opened_from_a_disk_runs_and_loads_nothing(
    tmp_path: Path, elsewhere: Elsewhere, open_page: OpenPage
) -> None:
    """Its policy is in the page as well."""
    whole = render_html(with_every_text(HOSTILE))
    file = tmp_path / "report.html"
    file.write_text(whole.replace("<h2>Summary</h2>", f"<h2>Summary</h2>{elsewhere.attack}"))
    page = open_page()
    page.goto(file.as_uri())
    expect(page.get_by_role("heading", name="Summary")).to_be_visible()
    click_whatever_it_offers(page)
    assert page.title() != "run"
    assert elsewhere.requests == []


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_fits_its_window_whatever_is_in_it(
    width: int, scheme: str, tmp_path: Path, open_page: OpenPage
) -> None:
    analysis = FULL.analysis.model_copy(update={"title": LONG, "keywords": (LONG, "flow")})
    facts = replace(FULL, title=LONG, analysis=analysis, key=LONG, problem=LONG)
    (tmp_path / "report.html").write_text(render_html(facts))
    page = open_page(width=width, color_scheme=scheme)
    page.goto((tmp_path / "report.html").as_uri())
    expect(page.locator("h1")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_collection_is_sorted_and_searched_without_script(
    document: Document, live_server: Any, open_page: OpenPage
) -> None:
    for year in (2001, 1999):
        Document.objects.create(key=f"doi:10.1/{year}", kind="doi", source="x", year=year)
    page = open_page(scripts=False)
    log_in(page, live_server.url, "sam")
    page.goto(f"{live_server.url}/papers/")
    page.get_by_role("link", name="Year").click()
    rows = page.locator("#papers tbody tr")
    expect(rows.first).to_contain_text("1999")
    page.get_by_role("link", name="Year").click()
    expect(rows.first).to_contain_text("2001")
    page.get_by_role("searchbox").fill("doi:10.1/19")
    page.get_by_role("button", name="Search").click()
    expect(rows).to_have_count(1)


PAPERS = 1_000
"""A few times as many as are shown at once."""


@pytest.mark.slow_proof
def test_an_index_of_thousands_of_papers_is_sorted_by_a_click(tmp_path: Path, open_page: OpenPage) -> None:
    rows = [
        Row(n, f"doi:10.1/{n}", f"Paper {n * 7919 % PAPERS}", "done", None, n % 50 or None, n, "", "",
            "", "", None)
        for n in range(PAPERS)
    ]  # fmt: skip
    page_of = collection_export.page_of(rows, {"counts": [("done", PAPERS, "")], "failures": []})
    (tmp_path / "index.html").write_text(page_of)
    page = open_page()
    page.goto((tmp_path / "index.html").as_uri())
    rows_shown = page.locator("#papers tbody tr")
    first = rows_shown.first
    expect(first).to_contain_text("Paper 0")
    page.get_by_role("button", name="Paper").click()
    expect(first).to_contain_text("Paper 0")
    page.get_by_role("button", name="Paper").click()
    expect(first).to_contain_text(f"Paper {PAPERS - 1}")
    page.get_by_role("button", name="Pages").click()
    expect(first.locator("td").nth(3)).to_have_text("1")
    expect(rows_shown).to_have_count(PAPERS, timeout=180_000)
    expect(rows_shown.last.locator("td").nth(3)).to_have_text("")


@pytest.mark.slow_proof
def test_a_claim_leads_to_its_page_with_the_picture_beside_the_text(
    page: Page, document: Document, live_server: Any
) -> None:
    """From the report, which is sandboxed, as whoever has logged in."""
    lines = [{"number": n, "text": f"Gates that open {n}", "source": "ocr", "reason": ""} for n in (1, 2)]
    stored = "".join(json.dumps(line) + "\n" for line in lines)
    claim = {"text": "It opens.", "quote": "Gates that open 2", "verdict": "verified", "page": 2}
    analysis = {"title": "On gates", "summary": "Gates.", "keywords": ["gates"], "results": [claim]}
    paper = Document(key="file:/a.pdf", kind="file", title="On gates", pages=2, analysis=analysis)
    paper.pages_file.save("pages/a.jsonl", ContentFile(stored.encode()), save=False)
    content = pdf_builder.text_content(*["Gates that open"] * 20)
    paper.pdf.save("pdf/a.pdf", ContentFile(pdf_builder.document([content] * 2)), save=False)
    paper.report_html.save("reports/a.html", ContentFile(render_html(report_facts(paper)).encode()))
    page.goto(f"{live_server.url}/documents/{paper.pk}/page")
    page.locator(".evidence a").click()
    expect(page).to_have_url(f"{live_server.url}/documents/{paper.pk}/pages/2")
    expect(page.locator("pre")).to_contain_text("Gates that open 2")
    expect(page.get_by_text("It opens.")).to_be_visible()
    picture = page.get_by_role("img", name="Page 2 as printed")
    expect(picture).to_have_js_property("complete", True)
    assert picture.evaluate("image => image.naturalWidth") > 0
