"""The papers flow: its phases and steps, the limits they run under, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline import intake, retention, seeding
from pipeline.config import PipelineSettings, chunks_at_once, pipeline_settings
from pipeline.error_kinds import ERROR_KINDS
from pipeline.export import export
from pipeline.files import cleanup
from pipeline.host_limits import HOST_LIMITS, limits_for_pdf
from pipeline.model_prices import DOLLARS
from pipeline.model_uses import MODEL_LIMIT, analysis_uses, ocr_uses
from pipeline.ocr_config import (
    OCR_LIMIT,
    OCR_REQUESTS,
    is_remote,
    pages_at_once,
    pages_for_ocr,
    requests_reserved,
    rounded_up,
)
from pipeline.steps.analyse.chunk_sizes import known_chunks, requests_for
from pipeline.steps.grobid import NAME as GROBID
from pipeline.steps.resolve.sources.source import limit_of
from pipeline.web.artifact_links import artifacts
from queuemgr import CheckResult, Context, Flow, Phase, Step, register_flow

MODEL_USD = "llm:usd"
"""The limit of what the model and the vision endpoint cost together."""

LLM_REQUESTS = "llm_requests"
"""The resource of concurrent requests to the model, over all papers."""


def _tenant(context: Context) -> tuple[str, ...]:
    """The limit key of the tenant in the payload, if any: tenants share slots fairly and may have limits."""
    tenant = str(context.get("tenant", "")).strip()
    return (f"tenant:{tenant}",) if tenant else ()


def _resolver(context: Context) -> tuple[str, ...]:
    """The limit key of the source it asks next, if its context names one: its first run asks nobody."""
    source = str(context.get("resolver", ""))
    asked = (limit_of(source),) if source else ()
    return (*asked, *_tenant(context))


def _grobid(context: Context) -> tuple[str, ...]:
    return (limit_of(GROBID), *_tenant(context))


def _host(context: Context) -> tuple[str, ...]:
    return (*limits_for_pdf(context, pipeline_settings().arxiv_url), *_tenant(context))


def _has_services_to_ask(context: Context) -> bool:
    return bool(context.get("services_left"))


def _is_for_grobid(context: Context) -> bool:
    return bool(context.get("grobid"))


def _has_references_to_look_up(context: Context) -> bool:
    return bool(context.get("references_to_look_up"))


def _has_pages_without_text(context: Context) -> bool:
    return pages_for_ocr(context) > 0


def _ocr(context: Context) -> tuple[str, ...]:
    """The limit keys of the vision endpoint, or of the OCR engine on this machine."""
    config = pipeline_settings()
    engine = (OCR_LIMIT, *_spending(config)) if is_remote(config) else ("engine:ocr",)
    return (*engine, *_tenant(context))


def _ocr_cost(context: Context) -> int:
    """A request for each page and some for retries, refunded when unused. The local engine costs nothing."""
    config = pipeline_settings()
    return requests_reserved(config, pages_for_ocr(context)) if is_remote(config) else 0


def _ocr_resources(context: Context) -> dict[str, int]:
    """As much of the resource as pages of the document are at the endpoint at once."""
    config = pipeline_settings()
    if not is_remote(config):
        return _cpu(context)
    return {**_cpu(context), OCR_REQUESTS: pages_at_once(config, pages_for_ocr(context))}


def _model(context: Context) -> tuple[str, ...]:
    config = pipeline_settings()
    model = (MODEL_LIMIT, *_spending(config)) if config.llm_base_url else ()
    return (*model, *_tenant(context))


def _model_resources(context: Context) -> dict[str, int]:
    """As much of the resource as parts of the paper are at the model at once, if requests are capped."""
    config = pipeline_settings()
    if not (config.llm_base_url and config.max_llm_requests):
        return {}
    return {LLM_REQUESTS: min(chunks_at_once(config), rounded_up(known_chunks(context)))}


def _spending(config: PipelineSettings) -> tuple[str, ...]:
    """The limit of what models cost together, if a day has an allowance."""
    return (MODEL_USD,) if config.daily_usd else ()


def _cpu(context: Context) -> dict[str, int]:
    return {"cpu": 1, "memory": 1}


def _io(context: Context) -> dict[str, int]:
    return {"io": 1}


def _analysis_cost(context: Context) -> int:
    """One request for each part, one to merge them, and one to repair an answer; unused ones are refunded.
    The local analyser sends none."""
    return requests_for(known_chunks(context)) if pipeline_settings().llm_base_url else 0


def _limits() -> dict[str, Mapping[str, Any]]:
    """Default limits: local OCR uses a core each, endpoints allow so many requests at once, and the
    services papers come from ask for a low rate."""
    config = pipeline_settings()
    return {
        "host:*": {"max_running": config.max_per_host},
        "resolver:*": {"max_running": config.max_per_resolver},
        **HOST_LIMITS,
        "engine:ocr": {"max_running": config.max_ocr},
        OCR_LIMIT: {"max_running": 0, "allowances": _per_minute(config.ocr_tokens_per_minute)},
        OCR_REQUESTS: {"max_running": config.max_ocr_requests},
        MODEL_LIMIT: {"max_running": config.max_llm, "allowances": _per_minute(config.tokens_per_minute)},
        **({MODEL_USD: {"allowances": _per_day(config.daily_usd)}} if config.daily_usd else {}),
        LLM_REQUESTS: {"max_running": config.max_llm_requests},
    }


def _checks() -> Iterator[CheckResult]:
    """Those of the doctor, imported when they are asked for, since they import the engines."""
    from pipeline.doctor import checkup

    return checkup()


def _per_minute(tokens: int) -> str:
    return f"{tokens:,} tokens/minute" if tokens else ""


def _per_day(usd: float) -> str:
    return f"{DOLLARS.text(DOLLARS.amount(usd))} usd/day"


LIMIT_SETTINGS: Mapping[str, str | tuple[str, str]] = {
    "max_per_host": "host:*",
    "max_per_resolver": "resolver:*",
    "max_ocr": "engine:ocr",
    "max_ocr_requests": OCR_REQUESTS,
    "max_llm": MODEL_LIMIT,
    "max_llm_requests": LLM_REQUESTS,
    "tokens_per_minute": (MODEL_LIMIT, "allowances"),
    "ocr_tokens_per_minute": (OCR_LIMIT, "allowances"),
    "daily_usd": (MODEL_USD, "allowances"),
}
"""The limit whose `max_running`, or other field, each setting sets."""


PAPERS = register_flow(Flow(
    name="papers",
    phases=(
        Phase(
            "prep", rank=2, waiting="pending", running="prepping",
            steps=(
                Step("resolve", "papers.resolve", key=_resolver, resources=_io),
                Step("fetch", "papers.fetch", key=_host, resources=_io),
                Step("extract", "papers.extract", key=_tenant, resources=_cpu),
                Step(
                    "ocr", "papers.ocr", key=_ocr, needed=_has_pages_without_text, cost=_ocr_cost,
                    resources=_ocr_resources, uses=ocr_uses,
                ),
                Step("grobid", "papers.grobid", key=_grobid, needed=_is_for_grobid, resources=_io),
                Step(
                    "metadata", "papers.metadata", key=_resolver, needed=_has_services_to_ask,
                    resources=_io,
                ),
            ),
        ),
        Phase(
            "expensive", rank=0, waiting="prepped", running="analyzing",
            steps=(
                Step(
                    "analyse", "papers.analyse", key=_model, cost=_analysis_cost,
                    resources=_model_resources, uses=analysis_uses,
                ),
            ),
        ),
        Phase(
            "wrap", rank=1, waiting="analyzed", running="wrapping",
            steps=(
                Step(
                    "references", "papers.references", key=_resolver, needed=_has_references_to_look_up,
                    resources=_io,
                ),
                Step("report", "papers.report", key=_tenant, resources=_io),
            ),
        ),
    ),
    parse_item=intake.parse_item,
    parse_remote_item=intake.parse_remote_item,
    store_items=intake.store_items,
    item_flags=intake.FLAGS,
    with_flags=intake.with_flags,
    item_files=intake.FILES,
    with_file=intake.with_file,
    register_items=intake.hold,
    backfill=intake.backfill,
    has_scheduled_backfill=pipeline_settings().seed_interval > 0,
    error_kinds=ERROR_KINDS,
    limits=_limits,
    limit_settings=LIMIT_SETTINGS,
    checks=_checks,
    link=intake.link,
    artifacts=artifacts,
    export=export,
    cleanup=cleanup,
    forget=retention.forget,
))  # fmt: skip

if PAPERS.has_scheduled_backfill:  # behind the papers' flow, whose words for its phases count
    seeding.declare(pipeline_settings().seed_interval)
