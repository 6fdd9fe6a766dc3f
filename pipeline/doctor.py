"""Checks of the papers pipeline's configuration, for `manage.py doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from django.db import DatabaseError

from pipeline import intake, queue_search, sandbox_required, storage
from pipeline.config import pipeline_settings
from pipeline.ocr_config import is_remote
from pipeline.ocr_options import ocr_options
from pipeline.steps.ocr.ocr import engine_for
from queuemgr import CheckResult, StepFailed


def checkup() -> Iterator[CheckResult]:
    """The OCR engine, the model's endpoint, and the contact address for the sources."""
    config = pipeline_settings()
    yield _ocr()
    yield _model()
    yield from _prices()
    yield _storage()
    yield _inbox()
    yield _sandbox()
    yield from _search()
    if not config.contact_email:
        yield CheckResult("note", "SLUICE_CONTACT_EMAIL is not set: Unpaywall is not asked for DOIs",
                      "set it to an address where the sources can reach you")  # fmt: skip
    if "openalex" in config.sources and not config.openalex_api_key.get_secret_value():
        yield CheckResult("note", "SLUICE_OPENALEX_API_KEY is not set: OpenAlex answers little without",
                      "get a free key at openalex.org, or drop openalex from SLUICE_RESOLVERS")  # fmt: skip


def _storage() -> CheckResult:
    """A small file is written, read and deleted."""
    try:
        storage.check()
    except StepFailed as error:
        return CheckResult(
            "bad", f"the file storage: {error.message}",
            "repair it, or correct SLUICE_STORAGE_BACKEND, SLUICE_STORAGE_OPTIONS and its keys",
        )  # fmt: skip
    return CheckResult("good", "the file storage writes, reads and deletes")


def _inbox() -> CheckResult:
    """What lies in the inbox and is never read."""
    refused = [file for file in intake.in_inbox() if file.refusal]
    if not refused:
        return CheckResult("good", "the inbox holds nothing that is refused")
    named = "; ".join(f"{file.path.name} is {file.refusal}" for file in refused[:5])
    more = f"; and {len(refused) - 5} more" if len(refused) > 5 else ""
    return CheckResult("note", f"files in the inbox are never read: {named}{more}",
                       "put the files themselves into the inbox; who else may write there?")  # fmt: skip


def _search() -> Iterator[CheckResult]:
    try:
        missing = any(index.is_missing() for index in queue_search.INDEXES)
    except DatabaseError:
        return  # another check says so
    if missing:
        yield CheckResult("note", "searching a title reads all titles: it has no trigram index",
                          "as a superuser: CREATE EXTENSION pg_trgm; then `manage.py migrate`")  # fmt: skip


def _sandbox() -> CheckResult:
    """A child is started that confines itself as those that read PDFs do."""
    if not (lacks := sandbox_required.lacking()):
        return CheckResult("good", "what reads PDFs is confined: one file, no network, no other process")
    if pipeline_settings().require_sandbox:
        return CheckResult("bad", f"no PDF is read here, since the kernel lacks {lacks}",
                           f"{sandbox_required.REMEDY}; or unset SLUICE_REQUIRE_SANDBOX")  # fmt: skip
    return CheckResult("note", f"what reads PDFs is not confined as it could be: the kernel lacks {lacks}",
                       sandbox_required.REMEDY)  # fmt: skip


def _ocr() -> CheckResult:
    """The engine that these settings select. An endpoint is not called, which would cost a request."""
    config = pipeline_settings()
    if config.ocr_api_key.get_secret_value() and not config.ocr_base_url:
        return CheckResult(
            "bad",
            "SLUICE_OCR_API_KEY is set without SLUICE_OCR_BASE_URL: pages are read locally",
            "set the endpoint's address, or unset the key",
        )
    try:
        chosen = engine_for(ocr_options(config))
    except StepFailed as error:
        return CheckResult("note", "no OCR engine: pages without text stay unread", error.message)
    if chosen.engine == "remote":
        return CheckResult("good", f"pages without text are read by {config.ocr_model}")
    return CheckResult("good", "the local OCR engine is installed")


def _prices() -> Iterator[CheckResult]:
    """An allowance in dollars counts only what has a price."""
    config = pipeline_settings()
    models = [config.llm_model] if config.llm_base_url else []
    models += [config.ocr_model] if is_remote(config) else []
    missing = [model for model in models if model not in config.model_prices]
    if missing and config.daily_usd:
        yield CheckResult("bad", f"SLUICE_DAILY_USD is set, and {missing[0]} has no price: it costs nothing",
                          "add it to SLUICE_MODEL_PRICES")  # fmt: skip


def _model() -> CheckResult:
    config = pipeline_settings()
    if not config.llm_base_url:
        return CheckResult("note", "no SLUICE_LLM_BASE_URL: analyses are extractive, made locally",
                       "set SLUICE_LLM_BASE_URL, SLUICE_LLM_MODEL and SLUICE_LLM_API_KEY")  # fmt: skip
    if not config.llm_model:
        return CheckResult("bad", "SLUICE_LLM_BASE_URL is set without SLUICE_LLM_MODEL", "name the model")
    return CheckResult("good", f"analyses are made by {config.llm_model}")
