"""The step that says what the paper says."""

from __future__ import annotations

from celery import shared_task
from django.db import connection

from pipeline.knobs import pipeline_knobs
from pipeline.models import Document
from pipeline.steps.analyse import AnalyseOptions, analyse
from pipeline.steps.llm import Endpoint
from pipeline.tasks.documents import done, load
from queuemgr.errors import StepFailed
from queuemgr.leased_task import LeasedTask, Work
from queuemgr.outcomes import Done, Failed


@shared_task(base=LeasedTask, name="papers.analyse")
def analyse_step(work: Work) -> Done | Failed:
    """Title, summary, keywords and contributions: by the model, or locally without one."""
    document = load(work)
    asked: list[int] = []

    def about_to_ask(number: int) -> None:
        asked.append(number)
        work.spend()
        connection.close()

    options = AnalyseOptions(_endpoint(), before_request=about_to_ask)
    try:
        analysed = analyse(_text(document), document.title, options, work.signal)
    except StepFailed as error:
        cost = len(asked) if options.endpoint else None
        return Failed(error.kind, error.message, error.retry_after, cost, error.limit)
    found = done(
        document,
        title=document.title or analysed.analysis.title[:500],
        analysis=analysed.analysis.model_dump(),
        method=analysed.method,
        requests=analysed.requests,
    )
    cost = analysed.requests if options.endpoint else None
    return Done(found.context, found.store, cost)


def _text(document: Document) -> str:
    with document.text.open("rb") as stored:
        return str(stored.read().decode("utf-8"))


def _endpoint() -> Endpoint | None:
    knobs = pipeline_knobs()
    if not knobs.llm_base_url:
        return None
    key = knobs.llm_api_key.get_secret_value()
    return Endpoint(knobs.llm_base_url, knobs.llm_model, key, knobs.llm_timeout)
