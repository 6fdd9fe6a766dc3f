"""What items name is found out before a transaction begins: nobody's write waits for a long text."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection

from pipeline import intake
from pipeline.management.commands import up
from pipeline.models import Document
from queuemgr.models import Execution
from queuemgr.operations import batches
from queuemgr.scheduling import limit_rows
from queuemgr.worker import housekeeping
from tests.integration.cli.commands import queue
from tests.integration.pipeline.papers_fixtures import STEPS, Papers
from tests.integration.pipeline.test_papers import PAPER
from tests.integration.web.api.api_client import ANN, Api, api
from tests.watched_calls import watched_calls

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("static_root")]

ITEMS = ["10.1000/1", "2101.00001", "https://a.org/x.pdf"]

Enter = Callable[[Path], object]

WAYS: dict[str, Enter] = {
    "one by the API": lambda tmp: [
        caller.post("executions", {"item": item}) for caller in [api()] for item in ITEMS
    ],
    "many by the API": lambda tmp: api().post("executions/many", {"items": ITEMS}),
    "many by the API, once": lambda tmp: api().post(
        "executions/many", {"items": ITEMS}, Idempotency_Key="once"
    ),
    "members of a batch by the API": lambda tmp: api().post(
        "batches/nightly/add", {"items": ITEMS}, Idempotency_Key="once"
    ),
    "by a command": lambda tmp: queue("enqueue", *ITEMS),
    "members of a batch by a command": lambda tmp: queue("batch", "add", "nightly", *ITEMS),
    "by an import": lambda tmp: queue("import", str(listed(tmp))),
    "by an import that holds them": lambda tmp: queue("import", "--hold", str(listed(tmp))),
    "by `up`": lambda tmp: up._enqueue(ITEMS),
    "by the backfill": lambda tmp: housekeeping.backfill(),
}


@pytest.fixture(autouse=True)
def _a_batch_and_limits(sent: list[Any]) -> None:
    limit_rows.sync()
    batches.open_batch("nightly", "papers", ANN)


def listed(folder: Path) -> Path:
    file = folder / "items.txt"
    file.write_text("\n".join(ITEMS))
    return file


def drop(inbox: Path) -> None:
    """As many files as there are items, which no longer change."""
    inbox.mkdir(exist_ok=True)
    for number in range(len(ITEMS)):
        (inbox / f"{number}.pdf").write_bytes(b"%PDF-1.7")
        os.utime(inbox / f"{number}.pdf", (0, 0))


@pytest.mark.parametrize("way", WAYS)
def test_items_are_identified_outside_of_any_transaction(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    inside: list[bool] = []
    identify = intake.identify

    def watched(text: str) -> Any:
        inside.append(connection.in_atomic_block)
        return identify(text)

    if "backfill" in way:
        drop(settings.SLUICE_INBOX)
    monkeypatch.setattr(intake, "identify", watched)
    WAYS[way](tmp_path)
    assert len(inside) == len(ITEMS) and not any(inside)
    assert Document.objects.count() == len(ITEMS)
    assert Execution.objects.count() == (0 if "holds" in way else len(ITEMS))


OF_A_SETTING = {"pipeline.host_limits:_host_of", "pipeline.steps.identify:host_key"}
"""What reads the address of arXiv, for the limits of the next step."""


def test_no_step_of_papers_reads_text_inside_a_transaction(papers: Papers) -> None:
    """What a step stores is made before: its store only writes."""
    papers.parse_item(PAPER)
    with watched_calls(lambda: connection.in_atomic_block) as seen:
        papers.work()
    assert [outcome for _, outcome in papers.outcomes()] == ["done"] * len(STEPS)
    assert {name for name in seen.all if name.startswith("pipeline.")} != set()
    assert {name for name in seen.wrongly if name.startswith("pipeline.")} <= OF_A_SETTING


def test_nothing_is_stored_of_a_request_with_one_item_that_cannot_be_read() -> None:
    answer = api().post("executions/many", {"items": [*ITEMS, "no such thing"]})
    assert answer.status_code == 422
    assert not Document.objects.exists() and not Execution.objects.exists()


HOSTILE = {
    "blanks in a URL": (600, "https://f{}.example/" + " " * 4_040 + "b"),
    "brackets after a DOI": (600, "10.1000/{}" + ")" * 4_000),
    "no-break spaces": (100, "b{}" + "\u00a0" * 4_000 + "b"),
}


BUSY_MACHINE = 8
"""Attempts: a write that waited for the processor is measured again; parsing always takes its time."""


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_write_elsewhere_waits_half_a_second_at_most_for_a_request_of_two_megabytes(
    kind: str, in_threads: Callable[..., list[Any]]
) -> None:
    caller = api()

    def is_as_usual() -> bool:
        usual = wait_during(caller, in_threads, 600, "10.1001/{}")
        return wait_during(caller, in_threads, *HOSTILE[kind]) <= max(0.5, 2 * usual)

    assert any(is_as_usual() for _ in range(BUSY_MACHINE))


def wait_during(caller: Api, in_threads: Callable[..., list[Any]], count: int, item: str) -> float:
    """Seconds that the slowest write took which began while these items were being enqueued."""
    ended = threading.Event()

    def request_or_write(number: int) -> float:
        if number == 1:
            return longest_write(ended)
        try:
            request(caller, count, item)
        finally:
            ended.set()
        return 0.0

    return max(in_threads(2, request_or_write))


def request(caller: Api, count: int, item: str) -> None:
    """Sent again, as its answer says, while the test's database is locked."""
    items = [item.format(n) for n in range(count)]
    for _ in range(50):
        answer = caller.post("executions/many", {"items": items})
        if answer.status_code != 503:
            break
    assert answer.status_code in (200, 422)


def written(key: str) -> bool:
    """Write a row; false while the test's database, which is in memory, is locked: it does not wait."""
    try:
        return bool(Document.objects.create(key=key, kind="url", source="x"))
    except OperationalError:
        return False


def longest_write(ended: threading.Event) -> float:
    """Seconds the slowest of the writes took that began before the request had ended."""
    longest, number = 0.0, Document.objects.count()
    while not ended.is_set():
        began = time.monotonic()
        while not written(f"url:https://other.org/{number}"):
            time.sleep(0.005)
        longest, number = max(longest, time.monotonic() - began), number + 1
        time.sleep(0.01)
    return longest
