"""The step that says what the paper says."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from celery import shared_task
from django.db import transaction

from pipeline.config import parts_at_once, pipeline_settings
from pipeline.models import METHOD_CHARACTERS, Document
from pipeline.steps.analyse.analyse import (
    Analysed,
    AnalyseOptions,
    ComeAgain,
    Learnt,
    analyse,
    parts_in,
)
from pipeline.steps.llm.client import Tally
from pipeline.steps.llm.endpoint import Endpoint
from pipeline.tasks.analysis_checkpoint import KeptNotes
from pipeline.tasks.documents import done, load
from pipeline.tasks.request_accounting import UNBOOKED, NotBooked, book, counted, failed, used
from queuemgr import Done, LeasedTask, Result, Snoozed, Work


@shared_task(base=LeasedTask, name="papers.analyse")
def analyse_step(work: Work) -> Result:
    """Title, summary, keywords and contributions: by the model, or locally without one."""
    tally = Tally()
    try:
        return _analysed(work, tally)
    except ComeAgain as again:
        return Snoozed(0, again.reason, again.learnt)
    except NotBooked:
        return UNBOOKED
    except Exception as error:
        return failed(error, work, _cost(tally))


def _analysed(work: Work, tally: Tally) -> Done:
    document = load(work)
    options = replace(_options(work.inputs), before_request=lambda _: book(work), tally=tally)
    several = options.endpoint is not None and options.learnt.parts > 1
    with KeptNotes(document) if several else nullcontext() as kept, counted(document, tally):
        if kept is not None:
            options = replace(options, notes=dict(kept.notes), keep_note=kept.keep)
        analysed = analyse(_text(document), document.title, options, work.signal)
    made = _stored(document, analysed, tally)
    return made if kept is None else replace(made, store=partial(_store_and_forget, made, kept))


def _store_and_forget(made: Done, kept: KeptNotes) -> None:
    """The notes go when the analysis made of them is stored for good, and not before."""
    if made.store is not None:
        made.store()
    transaction.on_commit(kept.forget, robust=True)


def _cost(tally: Tally) -> int | None:
    """Requests sent, where there is somebody to send them to."""
    return tally.requests if pipeline_settings().llm_base_url else None


def expected_parts(text: str) -> dict[str, int]:
    """What admission must know of a paper's text to reserve its requests, for the context."""
    options = _options({})
    return {"llm_parts": parts_in(text, options)} if options.endpoint else {}


def _stored(document: Document, analysed: Analysed, tally: Tally) -> Done:
    found = done(
        document,
        title=document.title or analysed.analysis.title[:500],
        analysis=analysed.analysis.model_dump(),
        method=analysed.method[:METHOD_CHARACTERS],
        prompt_version=analysed.prompt_version,
        **used(tally),
    )
    return Done(found.context, found.store, _cost(tally))


def _text(document: Document) -> str:
    with document.text.open("rb") as stored:
        return str(stored.read().decode("utf-8"))


def _options(given: dict[str, Any]) -> AnalyseOptions:
    config = pipeline_settings()
    return AnalyseOptions(
        endpoint=_endpoint(),
        context_tokens=config.llm_context_tokens,
        max_tokens=config.llm_max_tokens,
        max_parts=config.llm_max_parts,
        parts_inflight=parts_at_once(config),
        learnt=Learnt.of(given),
    )


def _endpoint() -> Endpoint | None:
    config = pipeline_settings()
    if not config.llm_base_url:
        return None
    key = config.llm_api_key.get_secret_value()
    return Endpoint(config.llm_base_url, config.llm_model, key, config.llm_timeout)
