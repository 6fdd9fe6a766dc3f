"""The step that says what the paper says."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from celery import shared_task
from django.db import Error as DatabaseAway
from django.db import connection, transaction
from django.db.models import F

from pipeline.knobs import parts_at_once, pipeline_knobs
from pipeline.models import Document
from pipeline.steps.analyse import Analysed, AnalyseOptions, ComeAgain, Learnt, analyse, parts_in
from pipeline.steps.endpoint import Endpoint
from pipeline.steps.llm import Tally
from pipeline.tasks.documents import done, load, store
from pipeline.tasks.kept_notes import KeptNotes
from queuemgr.errors import StepFailed
from queuemgr.leased_task import LeasedTask, Work
from queuemgr.outcomes import Done, Failed, Snoozed

logger = logging.getLogger(__name__)

UNBOOKED_SECONDS = 15.0
"""Until a request is tried again that the database did not let us book."""


class NotBooked(Exception):
    """The database did not take the booking of a request, so the request was not sent."""


@shared_task(base=LeasedTask, name="papers.analyse")
def analyse_step(work: Work) -> Done | Failed | Snoozed:
    """Title, summary, keywords and contributions: by the model, or locally without one."""
    document, tally = load(work), Tally()
    options = replace(_options(work.given), before_request=lambda _: _book(work), tally=tally)
    several = options.endpoint is not None and options.learnt.parts > 1
    try:
        with KeptNotes(document) if several else nullcontext() as kept, _counted(document, tally):
            if kept is not None:
                options = replace(options, notes=dict(kept.notes), keep_note=kept.keep)
            analysed = analyse(_text(document), document.title, options, work.signal)
    except ComeAgain as again:
        return Snoozed(0, again.reason, again.learnt)
    except NotBooked:
        return Snoozed(UNBOOKED_SECONDS, "the database did not take the booking of a request")
    except StepFailed as error:
        cost = tally.requests if options.endpoint else None
        return Failed(error.kind, error.message, error.retry_after, cost, error.limit)
    made = _stored(document, analysed, tally, tally.requests if options.endpoint else None)
    return made if kept is None else replace(made, store=partial(_store_and_forget, made, kept))


def expected_parts(text: str) -> dict[str, int]:
    """What admission must know of a paper's text to reserve its requests, for the context."""
    options = _options({})
    return {"llm_parts": parts_in(text, options)} if options.endpoint else {}


def _stored(document: Document, analysed: Analysed, tally: Tally, cost: int | None) -> Done:
    found = done(
        document,
        title=document.title or analysed.analysis.title[:500],
        analysis=analysed.analysis.model_dump(),
        method=analysed.method,
        prompt_version=analysed.prompt_version,
        **_used(tally),
    )
    return Done(found.context, found.store, cost)


def _store_and_forget(made: Done, kept: KeptNotes) -> None:
    """The notes go when the analysis made of them is stored for good, and not before."""
    if made.store is not None:
        made.store()
    transaction.on_commit(kept.forget, robust=True)


@contextmanager
def _counted(document: Document, tally: Tally) -> Iterator[None]:
    """Add what was asked and used to the document when the block fails: it was paid for. Not guarded
    by the lease, since it is a fact whoever holds that now."""
    try:
        yield
    except Exception:
        try:
            if tally.requests:
                store(document.pk, _used(tally))
        except DatabaseAway:
            logger.warning("tokens used for %s could not be noted", document.key)
        raise


def _used(tally: Tally) -> dict[str, Any]:
    """Columns that grow by what was asked and used."""
    return {
        "requests": F("requests") + tally.requests,
        "prompt_tokens": F("prompt_tokens") + tally.prompt_tokens,
        "completion_tokens": F("completion_tokens") + tally.completion_tokens,
    }


def _book(work: Work) -> None:
    """Book one request, in whatever thread; with none booked none is sent."""
    try:
        work.spend()
    except DatabaseAway as error:
        raise NotBooked from error
    finally:
        connection.close()


def _text(document: Document) -> str:
    with document.text.open("rb") as stored:
        return str(stored.read().decode("utf-8"))


def _options(given: dict[str, Any]) -> AnalyseOptions:
    knobs = pipeline_knobs()
    return AnalyseOptions(
        endpoint=_endpoint(),
        context_tokens=knobs.llm_context_tokens,
        max_tokens=knobs.llm_max_tokens,
        max_parts=knobs.llm_max_parts,
        parts_inflight=parts_at_once(knobs),
        learnt=Learnt.of(given),
    )


def _endpoint() -> Endpoint | None:
    knobs = pipeline_knobs()
    if not knobs.llm_base_url:
        return None
    key = knobs.llm_api_key.get_secret_value()
    return Endpoint(knobs.llm_base_url, knobs.llm_model, key, knobs.llm_timeout)
