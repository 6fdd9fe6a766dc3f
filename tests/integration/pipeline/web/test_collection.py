"""The collection: at /papers/ for users with the permission, and as static files."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from pipeline.models import FLOW, Document
from pipeline.web import collection, collection_export, collection_view
from queuemgr.models import Execution, State
from queuemgr.reporting import stats
from queuemgr.scheduling import limit_rows

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>\u202e"
NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def known(key: str, **columns: Any) -> Document:
    return Document.objects.create(key=key, kind="doi", source=key, enqueued=True, **columns)


def ended(key: str, state: str = State.DONE, error_kind: str = "", **columns: Any) -> Document:
    """A finished paper; one that is done has its report on the storage."""
    Execution.objects.create(
        flow=FLOW, key=key, state=state, phase="wrap", step="report", finished_at=NOON,
        error_kind=error_kind, error_message="it is a web page" if error_kind else "",
    )  # fmt: skip
    if state == State.DONE:
        name = f"reports/{key.rpartition('/')[2]}.html"
        columns["report_html"] = default_storage.save(name, ContentFile(f"report of {key}".encode()))
    return known(key, **columns)


@pytest.fixture
def papers() -> None:
    ended("doi:10.1/b", title="Beams", year=1999, pages=7, open_access="gold")
    ended("doi:10.1/a", title="Arches", year=2024, pages=30, problem="Page 3 was not read.")
    ended("doi:10.1/x", State.FAILED, "not_pdf")
    ended("doi:10.1/y", State.FAILED, "not_pdf")
    Document.objects.create(key="doi:10.1/later", kind="doi", source="later")


def keys(client: Client, address: str = "/papers/") -> list[str]:
    """The papers a page lists, in its order."""
    response = client.get(address)
    assert response.status_code == 200
    return re.findall(r'class="key"><bdi>.*?doi:10\.1/(\w+)', response.content.decode())


# Live


def test_an_anonymous_user_is_sent_to_the_login_and_back(client: Client) -> None:
    response = client.get("/papers/")
    assert (response.status_code, response["Location"]) == (302, "/admin/login/?next=/papers/")


def test_a_user_who_may_not_see_documents_sees_no_collection(client: Client) -> None:
    client.force_login(User.objects.create_user("sam", is_staff=True))
    assert client.get("/papers/").status_code == 403


def test_the_collection_lists_every_paper_newest_first_with_its_report(papers: None, reader: Client) -> None:
    assert keys(reader) == ["later", "y", "x", "a", "b"]
    shown = reader.get("/papers/").content.decode()
    arches = Document.objects.get(title="Arches")
    assert f'<a href="/documents/{arches.pk}/page">Arches</a>' in shown
    assert "Page 3 was not read." in shown and "it is a web page" in shown


def test_it_counts_papers_by_status_and_failures_by_kind_with_what_they_mean(
    papers: None, reader: Client
) -> None:
    shown = reader.get("/papers/").content.decode()
    assert re.search(r'href="\?status=done[^"]*">done</a> <strong>2</strong>', shown)
    assert re.search(r'kind=not_pdf[^"]*">not_pdf</a></td><td class="number">2</td>', shown)
    assert "what was fetched is not a PDF" in shown


@pytest.mark.parametrize(
    ("query", "listed"),
    [
        ("sort=title&status=done", "a b"),
        ("sort=-title&status=done", "b a"),
        ("sort=year&status=done", "b a"),
        ("sort=-pages", "a b later y x"),
        ("sort=year", "b a later y x"),
        ("sort=nonsense&page=nonsense", "later y x a b"),
        ("kind=not_pdf", "y x"),
        ("status=failed", "y x"),
        ("q=Arch", "a"),
        ("q=doi:10.1/y", "y"),
        ("q=%00%27", ""),
        ("status=%3Cscript%3E", "later y x a b"),
    ],
)
def test_the_collection_is_sorted_and_filtered_by_its_query_string(
    query: str, listed: str, papers: None, reader: Client
) -> None:
    """Missing values come last, the newest first."""
    assert keys(reader, f"/papers/?{query}") == listed.split()


def test_documents_without_an_execution_can_be_listed(papers: None, reader: Client) -> None:
    assert keys(reader, "/papers/?status=not+enqueued") == ["later"]


def test_the_heading_of_the_sorted_column_reverses_the_order(papers: None, reader: Client) -> None:
    shown = reader.get("/papers/?sort=year").content.decode()
    assert 'aria-sort="ascending"><a href="?sort=-year">Year</a>' in shown
    assert '<a href="?sort=pages">Pages</a>' in shown


def test_pages_of_a_long_collection_keep_the_query(
    papers: None, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_view, "PAGE_SIZE", 2)
    assert keys(reader, "/papers/?sort=key&page=2") == ["later", "x"]
    shown = reader.get("/papers/?sort=key&page=2").content.decode()
    assert 'href="?sort=key&amp;page=1" rel="prev"' in shown
    assert 'href="?sort=key&amp;page=3" rel="next"' in shown


def test_more_papers_than_are_sorted_come_newest_first_and_say_so(
    papers: None, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_view, "MAX_SORTED", 4)
    assert keys(reader, "/papers/?sort=title") == ["later", "y", "x", "a", "b"]
    assert "More than 4 papers" in reader.get("/papers/?sort=title").content.decode()
    assert keys(reader, "/papers/?sort=title&status=done") == ["a", "b"]


@pytest.mark.parametrize(
    ("query", "listed"),
    [
        ("status=done", "a b"), ("status=failed", "y x"), ("kind=not_pdf", "y x"),
        ("status=failed&q=doi:10.1/y", "y"),
    ],
)  # fmt: skip
def test_papers_of_a_frequent_status_are_found_without_collecting_all_their_keys(
    query: str, listed: str, papers: None, reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite used to collect 600,000 keys for a hundred rows, which took seconds."""
    monkeypatch.setattr(collection_view, "MAX_SORTED", 1)
    with CaptureQueriesContext(connection) as sent:
        assert keys(reader, f"/papers/?{query}") == listed.split()
    assert any("EXISTS" in query["sql"] for query in sent)
    assert not any('"key" IN (SELECT' in query["sql"] for query in sent)


def test_a_page_costs_a_fixed_number_of_queries(
    papers: None, reader: Client, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    for number in range(60):
        ended(f"doi:10.1/more{number}")
    with django_assert_max_num_queries(11):
        assert len(keys(reader)) == 65


@pytest.mark.only_on("sqlite", why="asks SQLite for its plan")
@pytest.mark.parametrize("count", [collection.counts, stats.counts])
def test_counting_all_work_reads_an_index_and_no_rows(count: Callable[[], Any], papers: None) -> None:
    """Rows contain payloads; an index of three short columns is a twentieth of their size."""
    with CaptureQueriesContext(connection) as captured:
        count()
    (counting,) = (query["sql"] for query in captured if "COUNT(" in query["sql"])
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {counting}")
        plan = " ".join(str(step[-1]) for step in cursor.fetchall())
    assert "USING COVERING INDEX execution_counts" in plan


def test_hostile_titles_are_text_and_no_script_may_run(reader: Client) -> None:
    ended("doi:10.1/x", title=HOSTILE, problem=HOSTILE, method=f"model:{HOSTILE}", open_access="<b>")
    response = reader.get("/papers/?q=" + HOSTILE)
    assert response["Content-Security-Policy"].startswith("default-src 'none'")
    for page in (response, reader.get("/papers/")):
        shown = page.content.decode()
        assert "<script" not in shown and "<b>" not in shown
    assert "&lt;script&gt;" in shown and "\u202e" not in shown


# As files


def index(directory: Path) -> str:
    out = io.StringIO()
    call_command("index", str(directory), stdout=out)
    return out.getvalue()


def test_the_index_links_to_a_copy_of_every_report(papers: None, tmp_path: Path) -> None:
    directory = tmp_path / "made" / "here"
    assert index(directory) == f"5 papers on 1 page: {directory / 'index.html'}\n"
    shown = (directory / "index.html").read_text()
    assert '<a href="reports/a.html">Arches</a>' in shown
    assert (directory / "reports" / "a.html").read_text() == "report of doi:10.1/a"
    assert "what was fetched is not a PDF" in shown and "<strong>2</strong>" in shown
    assert sorted(path.name for path in directory.rglob("*")) == [
        "a.html", "b.html", "index.html", "reports",
    ]  # fmt: skip


def test_an_index_written_again_replaces_the_earlier_one(papers: None, tmp_path: Path) -> None:
    index(tmp_path / "made")
    Document.objects.filter(title="Arches").update(title="Vaults")
    index(tmp_path / "made")
    assert "Vaults" in (tmp_path / "made" / "index.html").read_text()


def test_a_report_that_is_no_longer_on_the_storage_is_not_linked_to(papers: None, tmp_path: Path) -> None:
    default_storage.delete("reports/a.html")
    index(tmp_path / "made")
    shown = (tmp_path / "made" / "index.html").read_text()
    assert "reports/a.html" not in shown and "Arches" in shown


def test_a_long_index_comes_in_pages(papers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection_export, "ROWS_PER_FILE", 2)
    monkeypatch.setattr(collection_export, "ROWS_PER_QUERY", 3)
    assert "5 papers on 3 pages" in index(tmp_path)
    second = (tmp_path / "index-2.html").read_text()
    assert 'href="index.html" rel="prev"' in second and 'href="index-3.html" rel="next"' in second
    pages = ("index.html", "index-2.html", "index-3.html")
    listed = [re.findall(r"<bdi>doi:10.1/(\w+)", (tmp_path / page).read_text()) for page in pages]
    assert listed == [["b", "a"], ["x", "y"], ["later"]]


def test_an_index_of_nothing_is_a_page_that_says_so(tmp_path: Path) -> None:
    index(tmp_path)
    assert "No papers." in (tmp_path / "index.html").read_text()


def test_the_one_script_of_an_index_is_ours_and_needs_nothing_else(tmp_path: Path) -> None:
    ended("doi:10.1/x", title=HOSTILE)
    index(tmp_path)
    shown = (tmp_path / "index.html").read_text()
    assert shown.count("<script>") == 1 and "alert(1)&lt;/script" in shown
    assert "script-src &#x27;sha256-" in shown
    assert not re.search(r'(src|href)="(?!reports/)', shown)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match=r"file cannot be written: Not a directory") as refused:
        index(tmp_path / "file")
    assert refused.value.returncode == 3


@pytest.fixture(autouse=True)
def _limits() -> None:
    limit_rows.sync()


SPENT: dict[str, dict[str, int]] = {
    "$0.0153": {"requests": 2, "priced_requests": 2, "micro_usd": 15_300, "prompt_tokens": 9},
    "no price known": {"requests": 1, "prompt_tokens": 9},
    "not known: the endpoint reported no tokens": {"requests": 1},
}


@pytest.mark.parametrize("words", SPENT)
def test_what_a_paper_cost_stands_in_the_collection_and_on_its_page(words: str, reader: Client) -> None:
    paper = known("doi:10.1/paid", **SPENT[words])
    assert words in reader.get("/papers/").content.decode()
    assert words in reader.get(f"/admin/pipeline/document/{paper.pk}/change/").content.decode()


def test_papers_are_sorted_by_what_they_cost(reader: Client) -> None:
    for number, micro_usd in enumerate((20, 30, 10)):
        known(f"doi:10.1/{number}", requests=1, priced_requests=1, micro_usd=micro_usd)
    assert keys(reader, "/papers/?sort=-cost") == ["1", "0", "2"]
