"""The step that analyses the paper."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from celery import shared_task

from pipeline import storage
from pipeline.config import chunks_at_once, pipeline_settings
from pipeline.intake import store_schemas
from pipeline.model_uses import MODEL_LIMIT
from pipeline.models import METHOD_CHARACTERS, Document, ExtractionSchema
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
from pipeline.steps.analyse.custom_schema import CustomSchema, read_schema
from pipeline.steps.llm.endpoint import Endpoint
from pipeline.steps.llm.usage import Usage
from pipeline.steps.metadata.candidates import candidate
from pipeline.tasks.checkpoint import JsonLinesCheckpoint
from pipeline.tasks.documents import load, store
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
from queuemgr import BadInput, Done, LeasedTask, Result, Snoozed, StepFailed, Work
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
        options_for(work.inputs),
        before_request=lambda _: charge_request(work), usage=spending.usage, schema=schema_for(work),
    )  # fmt: skip
    with recorded_on_failure(document, spending):
        if options.endpoint is None or options.known.chunks == 1:
            return _stored(document, _analysis(document, options, work), spending, options)
        checkpoint = JsonLinesCheckpoint(f"analysis/{document.file_stem}.notes.jsonl")
        options = replace(options, notes=_notes(checkpoint), save_note=partial(_save_note, checkpoint))
        with checkpoint.saved_on_failure():
            analysed = _analysis(document, options, work)
        done = _stored(document, analysed, spending, options)
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


def tokens_of_chunks(schema: CustomSchema | None = None) -> int | None:
    """Tokens of the chunks a paper is sent in; None without a model."""
    options = replace(options_for({}), schema=schema)
    return chunk_tokens(options) if options.endpoint else None


def schema_for(work: Work) -> CustomSchema | None:
    """The schema that was given for this paper, else that of the setting."""
    if not (digest := work.inputs.get("schema")):
        return _schema_in(pipeline_settings().paper_schema)
    with work.database():
        found = ExtractionSchema.objects.filter(pk=digest).first()
    if found is None:
        raise StepFailed("schema_missing", f"The schema {digest!r} of this paper is no longer stored.")
    return CustomSchema(found.text)


def _schema_in(path: str) -> CustomSchema | None:
    """The schema in the file that the setting names, as it is now."""
    try:
        return read_schema(Path(path).read_bytes()) if path else None
    except (OSError, BadInput) as error:
        raise StepFailed("schema_missing", f"SLUICE_PAPER_SCHEMA: {error}") from None


def _stored(document: Document, analysed: Analysed, spending: Spending, options: AnalyseOptions) -> Done:
    schema = options.schema if options.endpoint else None
    columns = {
        **_title(document, analysed),
        "analysis": as_json(analysed.analysis),
        "method": analysed.method[:METHOD_CHARACTERS],
        "prompt_version": analysed.prompt_version,
        "prompt_hash": analysed.prompt_hash,
        "extraction_schema_id": schema.digest if schema else None,
        **usage_columns(spending),
    }

    def store_all() -> None:
        store_schemas([schema])
        store(document.pk, columns)

    return Done(store=store_all, cost=_cost(spending.usage))


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
