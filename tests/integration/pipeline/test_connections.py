"""No database connection is held while a step waits for a service, a child process or a slot."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from django.db import connection, connections

from pipeline.steps.ocr.ocr import OcrResult
from pipeline.steps.pdf.page_outcomes import PageOutcome
from queuemgr.models import Execution, State
from tests import pdf_builder
from tests.integration.pipeline.papers_fixtures import STEPS, Papers, Site
from tests.integration.pipeline.test_papers import GOOD, PROSE

pytestmark = pytest.mark.django_db(transaction=True)

WAITS = {
    "resolve": "pipeline.tasks.resolve.query_source",
    "fetch": "pipeline.tasks.fetch.fetch",
    "extract": "pipeline.steps.extract.extract.read_pages",
    "ocr": "pipeline.tasks.ocr.ocr",
    "analyse": "pipeline.tasks.analyse.analyse",
    "report": "pipeline.files.promote",
}
"""What each step calls that waits."""


def open_connections() -> list[str]:
    """Aliases of the connections that this thread holds."""
    opened = connections.all(initialized_only=True)
    return [each.alias for each in opened if each.connection is not None]


@pytest.fixture
def _closable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Django close its connection to a SQLite database in memory, which another one keeps alive."""
    if connection.vendor != "sqlite":
        yield
        return
    with closing(sqlite3.connect(connection.settings_dict["NAME"], uri=True)):
        monkeypatch.setattr(connection, "is_in_memory_db", lambda: False)
        yield
        monkeypatch.undo()
        connection.ensure_connection()


@pytest.fixture
def held(_closable: None, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The connections held when each step began to wait."""
    found: dict[str, list[str]] = {}

    def watch(step: str, target: str) -> None:
        module, _, name = target.rpartition(".")
        original: Callable[..., Any] = getattr(__import__(module, fromlist=[name]), name)

        @functools.wraps(original)
        def waiting(*args: Any, **kwargs: Any) -> Any:
            found.setdefault(step, []).extend(open_connections())
            if step == "ocr":
                return OcrResult(tuple(PageOutcome(page, 1, "Gates.") for page in args[1]))
            return original(*args, **kwargs)

        monkeypatch.setattr(target, waiting)

    for step, target in WAITS.items():
        watch(step, target)
    return found


def test_no_connection_is_held_while_a_step_waits(
    held: dict[str, list[str]], papers: Papers, model: Site
) -> None:
    pytest.importorskip("rapidocr")
    model.answers = [GOOD]
    model.pages["/pdf/2101.00001"] = pdf_builder.document(
        [pdf_builder.text_content(*PROSE), pdf_builder.text_content("1")]
    )
    papers.parse_item("2101.00001")
    papers.work()
    assert Execution.objects.get().state == State.DONE
    assert held == {step: [] for step in (*STEPS, "ocr")}
