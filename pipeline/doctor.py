"""What the papers pipeline needs and may lack."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.config import pipeline_knobs
from pipeline.ocr_config import ocr_options
from pipeline.steps.ocr.ocr import engine_for
from queuemgr.base.errors import StepFailed
from queuemgr.flows.flow import Finding


def checkup() -> Iterator[Finding]:
    """The OCR engine, the model's endpoint, and the address the sources ask for."""
    knobs = pipeline_knobs()
    yield _ocr()
    yield _model()
    if not knobs.contact_email:
        yield Finding("note", "SLUICE_CONTACT_EMAIL is not set: Unpaywall is not asked for DOIs",
                      "set it to an address where the sources can reach you")  # fmt: skip
    if "openalex" in knobs.sources and not knobs.openalex_api_key.get_secret_value():
        yield Finding("note", "SLUICE_OPENALEX_API_KEY is not set: OpenAlex answers little without",
                      "get a free key at openalex.org, or drop openalex from SLUICE_RESOLVERS")  # fmt: skip


def _ocr() -> Finding:
    """The engine these knobs come to. An endpoint is not asked: that would cost a request."""
    knobs = pipeline_knobs()
    if knobs.ocr_api_key.get_secret_value() and not knobs.ocr_base_url:
        return Finding(
            "bad",
            "SLUICE_OCR_API_KEY is set without SLUICE_OCR_BASE_URL: pages are read locally",
            "set the endpoint's address, or unset the key",
        )
    try:
        chosen = engine_for(ocr_options(knobs))
    except StepFailed as error:
        return Finding("note", "no OCR engine: pages without text stay unread", error.message)
    if chosen.engine == "remote":
        return Finding("good", f"pages without text are read by {knobs.ocr_model}")
    return Finding("good", "the local OCR engine is installed")


def _model() -> Finding:
    knobs = pipeline_knobs()
    if not knobs.llm_base_url:
        return Finding("note", "no SLUICE_LLM_BASE_URL: analyses are extractive, made locally",
                       "set SLUICE_LLM_BASE_URL, SLUICE_LLM_MODEL and SLUICE_LLM_API_KEY")  # fmt: skip
    if not knobs.llm_model:
        return Finding(
            "bad", "SLUICE_LLM_BASE_URL is set without SLUICE_LLM_MODEL", "name the model"
        )
    return Finding("good", f"analyses are made by {knobs.llm_model}")
