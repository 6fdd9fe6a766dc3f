"""A cancel is heard within two seconds in every step of papers, whatever the step is at."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

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


def with_an_endless_text(port: int, set_settings: Callable[..., None]) -> Prepared:
    document = Document.objects.create(key="k", kind="file", source="/k.pdf")
    document.text.save("k.txt", ContentFile(ENDLESS.encode()))
    return {}


def with_endless_references(port: int, set_settings: Callable[..., None]) -> Prepared:
    document = Document.objects.create(key="k", kind="file", source="/k.pdf", analysis=ANALYSIS)
    document.references_file.save("k.jsonl", ContentFile(ENTRIES.encode()))
    return {}


HOSTILE: Mapping[str, Callable[[int, Callable[..., None]], Prepared]] = {
    "resolve": at_a_silent_source,
    "fetch": at_a_silent_host,
    "extract": with_endless_operators,
    "ocr": at_a_silent_vision_model,
    "analyse": with_an_endless_text,
    "report": with_endless_references,
}
"""What each step is given: a new step needs an entry."""


@pytest.mark.parametrize("step", [ref.step.name for ref in PAPERS.steps()])
def test_a_cancel_is_heard_within_two_seconds(
    step: str, silent: int, set_settings: Callable[..., None], played: Callable[..., Any]
) -> None:
    runner = StepRunner(played(slots=1))
    Limit.objects.filter(name__startswith="resolver:").update(rate="", max_running=4)
    runner.phase = next(ref.phase.name for ref in PAPERS.steps() if ref.step.name == step)
    runner.step = step
    runner.enqueue("k", HOSTILE[step](silent, set_settings))
    (grant,) = runner.begin()
    result, late = cancelled(lambda signal: runner.run(grant, signal), after=1.0)
    assert isinstance(result, Interrupted | Done), result
    assert late <= WITHIN


def cancelled(run: Callable[[AbortSignal], Result], after: float) -> tuple[Result, float]:
    """Run a step, cancel it, and say how long after that it ended: nothing, if it had ended before."""
    signal, at = AbortSignal(), []

    def cancel() -> None:
        at.append(time.monotonic())
        signal.abort("cancelled")

    timer = threading.Timer(after, cancel)
    timer.start()
    result = run(signal)
    ended = time.monotonic()
    timer.cancel()
    return result, max((ended - moment for moment in at), default=0.0)
