"""`force_ocr` for a paper that is done: it is read again, and what depends on it is made again."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from pipeline import intake
from pipeline.execution_keys import AGAIN
from pipeline.models import FLOW, Document
from pipeline.web import reread_action
from queuemgr import MAX_KEY, BadInput
from queuemgr.flows import callbacks
from queuemgr.flows.flow import get_flow
from queuemgr.models import AuditEntry, Execution, State
from queuemgr.operations import executions
from queuemgr.operations.controls import Actor
from tests.integration.cli.commands import queue
from tests.integration.pipeline.papers_fixtures import Papers, Site
from tests.integration.pipeline.steps.ocr_endpoint import FACTS
from tests.integration.web.api.api_client import api
from tests.pdf_builder import document, text_content, written

pytestmark = pytest.mark.django_db(transaction=True)

KEY = "arxiv:2101.00001"
ENQUEUE = "/admin/queuemgr/execution/enqueue/"
PRICES = json.dumps({"m-1": {"input": 1, "output": 1}, "v-1": {"input": 1, "output": 1}})


@pytest.fixture(autouse=True)
def _endpoints(set_settings: Callable[..., None], sent: list[Any], static_root: None) -> None:
    set_settings(
        ocr_base_url="http://127.0.0.1:9/v1", ocr_model="v-1", llm_base_url="http://127.0.0.1:9/v1",
        llm_model="m-1", model_prices=PRICES,
    )  # fmt: skip


@pytest.fixture
def done(sent: list[Any]) -> Execution:
    """A paper of nine pages that was read, with a schema."""
    queue("enqueue", "2101.00001")
    Document.objects.update(pages=9)
    Execution.objects.update(
        state=State.DONE, finished_at=timezone.now(), route=None,
        payload={"kind": "arxiv", "schema": "d" * 64},
        context={"pages_without_text": [], "llm_chunks": 2, "llm_tokens": 9_000},
    )  # fmt: skip
    return Execution.objects.get()


def again() -> Execution:
    return Execution.objects.get(key=KEY + AGAIN)


WAYS: dict[str, Callable[[], object]] = {
    "queue enqueue": lambda: queue("enqueue", "2101.00001", "--force-ocr"),
    "queue import": lambda: queue("import", "list.jsonl"),
    "the API, by its id": lambda: _posted({"id": "2101.00001", "force_ocr": True}),
    "the API, by its key": lambda: _posted({"document": KEY, "force_ocr": True}),
    "the admin's list": lambda: _ticked({"reason": "a bad layer"}),
    "the admin's form": lambda: _typed({"item": "2101.00001", "flag-force_ocr": "on"}),
    "the admin's form, in a record": lambda: _typed({"item": '{"id": "2101.00001", "force_ocr": true}'}),
}


def _posted(record: dict[str, Any]) -> None:
    assert api(name=f"robot {Execution.objects.count()}").post("executions", {"item": json.dumps(record)})


def _typed(given: dict[str, str]) -> None:
    form = {"flow": FLOW, "priority": "normal", **given}
    sent = _browser("add_execution", "view_execution").post(ENQUEUE, form)
    assert sent.status_code == 302, sent.content.decode()


def _browser(*held: str) -> Client:
    user, _ = User.objects.get_or_create(username="sam", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=held))
    client = Client()
    client.force_login(user)
    return client


def _ticked(given: dict[str, str], *held: str) -> str:
    client = _browser(*(held or ("view_document", "add_execution")))
    ticked = {"action": "reread", "_selected_action": [str(Document.objects.get().pk)], **given}
    return client.post("/admin/pipeline/document/", ticked, follow=True).content.decode()


@pytest.mark.parametrize("way", WAYS)
def test_a_paper_that_is_done_is_read_again_by_ocr_once(
    way: str, done: Execution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list.jsonl").write_text('{"id": "2101.00001", "force_ocr": true}')
    for _ in range(2):
        WAYS[way]()
        assert Execution.objects.count() == 2 and Document.objects.count() == 1
    assert again().payload == {
        "kind": "arxiv", "schema": "d" * 64, "force_ocr": True, "document": KEY, "pages_expected": 9,
        "llm_chunks": 2, "llm_tokens": 9_000,
    }  # fmt: skip
    assert again().state == State.WAITING
    done.refresh_from_db()
    assert done.state == State.DONE


def test_what_it_may_cost_is_said_before(done: Execution) -> None:
    said = queue("enqueue", "2101.00001", "--force-ocr", "--dry-run").out
    assert "1 would be new" in said and "prep/ocr" in said and "expensive/analyse" in said
    page = _ticked({})
    assert "1 paper, 9 pages: at most 16 requests, about 43,800 tokens, $0.0438." in page
    assert Execution.objects.count() == 1


def test_whoever_may_not_enqueue_cannot_have_it_read_again(done: Execution) -> None:
    _ticked({"reason": "a bad layer"}, "view_document")
    assert Execution.objects.count() == 1


def test_a_paper_that_is_being_read_is_named_and_left_alone() -> None:
    queue("enqueue", "2101.00001")
    assert "is being read without" in queue("enqueue", "2101.00001", "--force-ocr").error
    executions.cancel(Execution.objects.all(), Actor("ann", "test"))
    assert "1 new" in queue("enqueue", "2101.00001", "--force-ocr").out


def test_a_paper_that_was_read_by_ocr_of_every_page_is_not_read_again(done: Execution) -> None:
    Execution.objects.update(payload={"kind": "arxiv", "force_ocr": True})
    assert "0 new, 1 already there" in queue("enqueue", "2101.00001", "--force-ocr").out


def test_what_is_read_again_is_not_held_and_an_unknown_key_is_refused(done: Execution) -> None:
    with pytest.raises(BadInput, match="has been read"):
        intake.hold([intake.parse_item('{"id": "2101.00001", "force_ocr": true}')])
    with pytest.raises(BadInput, match="there is no document"):
        intake.parse_remote_item('{"document": "file:/etc/passwd"}')


def test_pages_and_exports_of_the_second_execution_are_those_of_the_paper(done: Execution) -> None:
    queue("enqueue", "2101.00001", "--force-ocr")
    flow = get_flow(FLOW)
    assert callbacks.link(flow, KEY + AGAIN) == callbacks.link(flow, KEY) != ""
    assert callbacks.export(flow, [KEY + AGAIN])[KEY + AGAIN]["pages"] == 9
    assert AuditEntry.objects.filter(action="enqueue").count() == 2


URLS = [f"https://gates.test/{'a' * length}.pdf" for length in (10, 222, 223, 227, 228, 229, 300)]
"""Keys of which some are cut, for the second execution or before."""


@pytest.mark.parametrize("url", URLS)
def test_a_paper_is_kept_until_neither_of_its_executions_is_left(
    url: str, sent: list[Any], set_settings: Callable[..., None]
) -> None:
    for suffix in ("", "x"):
        queue("enqueue", url.replace("/a", f"/a{suffix}"))
    Execution.objects.update(state=State.DONE, route=None, finished_at=timezone.now())
    queue("enqueue", url, "--force-ocr")
    first, other, second = (each.key for each in Execution.objects.order_by("pk"))
    flow = get_flow(FLOW)
    assert len(second) <= MAX_KEY and callbacks.link(flow, second) == callbacks.link(flow, first) != ""
    set_settings(keep_documents=False)
    for gone, left in ((other, {first}), (first, {first}), (second, set())):
        with transaction.atomic():
            Execution.objects.filter(key=gone).delete()
            callbacks.forget(flow, [gone])
        assert set(Document.objects.values_list("key", flat=True)) == left


def test_a_paper_that_retention_deletes_while_it_is_enqueued_is_there_again(
    sent: list[Any], set_settings: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_settings(keep_documents=False)
    queue("enqueue", KEY)
    Execution.objects.all().delete()
    keep, gone = intake._keep, iter([True])

    def kept(keys: Sequence[str]) -> set[str]:
        if next(gone, False):
            callbacks.forget(get_flow(FLOW), [KEY])
        return keep(keys)

    monkeypatch.setattr(intake, "_keep", kept)
    queue("enqueue", KEY)
    assert Document.objects.get().key == Execution.objects.get().key == KEY


@pytest.mark.only_on("postgres", why="SQLite locks no rows")
def test_retention_waits_for_nobody_who_enqueues_the_same_paper(
    sent: list[Any], set_settings: Callable[..., None]
) -> None:
    queue("enqueue", KEY)
    Execution.objects.all().delete()
    set_settings(keep_documents=False)

    def forget() -> None:
        with closing(connection), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '3s'")
            callbacks.forget(get_flow(FLOW), [KEY])

    with ThreadPoolExecutor(1) as another, transaction.atomic():
        intake._keep([KEY])
        another.submit(forget).result()
    assert Document.objects.get().key == KEY


def test_more_papers_than_are_read_again_at_once_are_refused_by_their_number(
    done: Execution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reread_action, "MOST", 0)
    page = _ticked({"reason": "a bad layer"})
    assert "1 papers are chosen and at most 0 are read again at once: nothing was enqueued" in page
    assert Execution.objects.count() == 1


def test_what_depends_on_the_text_is_made_again(
    papers: Papers, site: Site, tmp_path: Path, set_settings: Callable[..., None]
) -> None:
    set_settings(ocr_base_url="", llm_base_url="")
    pdf = written(tmp_path, document([text_content("Gates hold the water back", "until they are opened")]))
    papers.parse_item(pdf)
    papers.work()
    set_settings(ocr_base_url=f"{site.url}/v1", llm_base_url="")
    site.answers = [FACTS.format(valid=True, rotation=0) + "Locks hold the boats back until they are full."]
    assert "1 new" in queue("enqueue", str(pdf), "--force-ocr").out
    papers.work()
    paper = Document.objects.get()
    assert paper.pages_by == {"ocr": 1}
    assert "Locks hold the boats" in Path(paper.text.path).read_text()
    assert "Locks hold the boats" in Path(paper.report_markdown.path).read_text()
    assert [each.state for each in Execution.objects.all()] == [State.DONE] * 2
