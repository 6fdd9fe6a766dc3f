"""The step that analyses the paper."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import Any

from celery import shared_task

from pipeline import storage
from pipeline.config import chunks_at_once, pipeline_settings
from pipeline.model_uses import MODEL_LIMIT
from pipeline.models import METHOD_CHARACTERS, Document
from pipeline.paper_metadata import with_statements
from pipeline.steps.analyse.analyse import (
    Analysed,
    AnalyseOptions,
    KnownLimits,
    Reschedule,
    analyse,
    chunk_tokens,
)
from pipeline.steps.analyse.analysis import stored as as_json
from pipeline.steps.llm.endpoint import Endpoint
from pipeline.steps.llm.usage import Usage
from pipeline.steps.metadata.candidates import candidate
from pipeline.tasks.checkpoint import JsonLinesCheckpoint
from pipeline.tasks.documents import done, load
from pipeline.tasks.request_accounting import (
    CHARGE_FAILED,
    ChargeFailed,
    charge_request,
    failed_result,
    recorded_on_failure,
    usage_columns,
)
from pipeline.tasks.spending import Spending
from pipeline.tasks.text_limits import text_limits
from queuemgr import Done, LeasedTask, Result, Snoozed, Work
from queuemgr.steptools.process_lanes import lanes, limit_model_threads

logger = logging.getLogger(__name__)


@shared_task(base=LeasedTask, name="papers.analyse")
def analyse_step(work: Work) -> Result:
    """Title, summary, keywords and contributions: by the model, or locally without one."""
    config = pipeline_settings()
    spending = Spending(work, config.llm_model if config.llm_base_url else None, MODEL_LIMIT)
    spending.usage.after_answer = partial(asyncio.to_thread, spending.charge)
    spending.usage.after_headers = lambda *said: asyncio.to_thread(spending.observe, *said)
    try:
        return _analysed(work, spending)
    except Reschedule as again:
        return Snoozed(0, again.reason, again.context)
    except ChargeFailed:
        return CHARGE_FAILED
    except Exception as error:  # whatever it is, its requests were paid for
        return failed_result(error, work, _cost(spending.usage))
    finally:
        spending.settle()


def _analysed(work: Work, spending: Spending) -> Done:
    document = load(work)
    options = replace(
        options_for(work.inputs), before_request=lambda _: charge_request(work), usage=spending.usage
    )
    with recorded_on_failure(document, spending):
        if options.endpoint is None or options.known.chunks == 1:
            return _stored(document, _analysis(document, options, work), spending)
        checkpoint = JsonLinesCheckpoint(f"analysis/{document.file_stem}.notes.jsonl")
        options = replace(options, notes=_notes(checkpoint), save_note=partial(_save_note, checkpoint))
        with checkpoint.saved_on_failure():
            analysed = _analysis(document, options, work)
        done = _stored(document, analysed, spending)
        return replace(done, store=checkpoint.deleted_after(done))


def _analysis(document: Document, options: AnalyseOptions, work: Work) -> Analysed:
    limit_model_threads()
    return analyse(_text(document), document.title, options, work.signal)


def _notes(checkpoint: JsonLinesCheckpoint) -> dict[str, str]:
    """The notes that earlier attempts made, by the digest of their request."""
    return {
        str(record["digest"]): str(record["note"])
        for record in checkpoint.records()
        if record.keys() >= {"digest", "note"}
    }


def _save_note(checkpoint: JsonLinesCheckpoint, digest: str, note: str) -> None:
    """Without the checkpoint only a retry costs more, so a failure to write it is not one of the step."""
    try:
        checkpoint.add({"digest": digest, "note": note})
    except Exception as error:  # storages raise exceptions of any kind
        logger.warning("checkpoint %s could not be written: %s", checkpoint.name, type(error).__name__)


def _cost(usage: Usage) -> int | None:
    """Requests sent; None without an endpoint."""
    return usage.requests if pipeline_settings().llm_base_url else None


def tokens_of_chunks() -> int | None:
    """Tokens of the chunks a paper is sent in; None without a model."""
    options = options_for({})
    return chunk_tokens(options) if options.endpoint else None


def _stored(document: Document, analysed: Analysed, spending: Spending) -> Done:
    stored = done(
        document,
        **_title(document, analysed),
        analysis=as_json(analysed.analysis),
        method=analysed.method[:METHOD_CHARACTERS],
        prompt_version=analysed.prompt_version,
        prompt_hash=analysed.prompt_hash,
        **usage_columns(spending),
    )
    return Done(stored.context, stored.store, _cost(spending.usage))


def _title(document: Document, analysed: Analysed) -> dict[str, Any]:
    """The title that the analysis found, if there is none yet."""
    found = candidate("title", analysed.analysis.title, "model", 0.4)
    return with_statements(document, {"model": [found]}) if found and not document.title else {}


def _text(document: Document) -> str:
    with storage.opened(document.text.name) as stored:
        return stored.read().decode("utf-8")


def options_for(inputs: dict[str, Any]) -> AnalyseOptions:
    config = pipeline_settings()
    return AnalyseOptions(
        endpoint=_endpoint(),
        context_tokens=config.llm_context_tokens,
        max_tokens=config.llm_max_tokens,
        max_chunks=config.llm_max_chunks,
        chunks_inflight=chunks_at_once(config),
        lane=lanes().lane("io"),
        limits=text_limits(),
        known=KnownLimits.from_context(inputs),
    )


def _endpoint() -> Endpoint | None:
    config = pipeline_settings()
    if not config.llm_base_url:
        return None
    key = config.llm_api_key.get_secret_value()
    return Endpoint(config.llm_base_url, config.llm_model, key, config.llm_timeout)
