"""The papers flow: what follows what, under which limits and at what cost. Read it top to bottom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline import intake
from pipeline.config import parts_at_once, pipeline_settings
from pipeline.doctor import checkup
from pipeline.error_kinds import ERROR_KINDS
from pipeline.export import export
from pipeline.files import cleanup
from pipeline.host_limits import HOST_LIMITS, limits_for_pdf
from pipeline.ocr_config import (
    KEY,
    REQUESTS,
    is_remote,
    pages_at_once,
    requests_reserved,
    rounded_up,
)
from pipeline.steps.analyse.chunks import known_parts, requests_for
from pipeline.steps.resolve.sources.source import limit_of
from pipeline.web.artifact_links import artifacts
from queuemgr import Context, Flow, Phase, Step

LLM_REQUESTS = "llm_requests"
"""The tokens that count requests at the model at once, over all papers."""


def _tenant(given: Context) -> tuple[str, ...]:
    """Whose paper it is, where the payload says: tenants take turns, and may have limits."""
    tenant = str(given.get("tenant", "")).strip()
    return (f"tenant:{tenant}",) if tenant else ()


def _resolver(given: Context) -> tuple[str, ...]:
    """The one source it asks next, once it has said which; before that it only looks at what is known."""
    source = str(given.get("resolver", ""))
    asked = (limit_of(source),) if source else ()
    return (*asked, *_tenant(given))


def _host(given: Context) -> tuple[str, ...]:
    return (*limits_for_pdf(given, pipeline_settings().arxiv_url), *_tenant(given))


def _has_bare_pages(given: Context) -> bool:
    return bool(given.get("pages_without_text"))


def _ocr(given: Context) -> tuple[str, ...]:
    """The endpoint's limit where pages go to one, else that of the engine on this machine."""
    return (KEY if is_remote(pipeline_settings()) else "engine:ocr", *_tenant(given))


def _ocr_cost(given: Context) -> int:
    """A request a page and some for second tries, given back when unused; the local engine is free."""
    config = pipeline_settings()
    return requests_reserved(config, _bare_pages(given)) if is_remote(config) else 0


def _ocr_tokens(given: Context) -> dict[str, int]:
    """At the endpoint a document takes as many places as it has pages there at once."""
    config = pipeline_settings()
    if not is_remote(config):
        return _cpu(given)
    return {**_cpu(given), REQUESTS: pages_at_once(config, _bare_pages(given))}


def _bare_pages(given: Context) -> int:
    return len(given.get("pages_without_text") or ())


def _model(given: Context) -> tuple[str, ...]:
    model = ("llm:chat",) if pipeline_settings().llm_base_url else ()
    return (*model, *_tenant(given))


def _model_tokens(given: Context) -> dict[str, int]:
    """Where requests are capped a paper takes as many places as it has parts at the model at once."""
    config = pipeline_settings()
    if not (config.llm_base_url and config.max_llm_requests):
        return {}
    return {LLM_REQUESTS: min(parts_at_once(config), rounded_up(known_parts(given)))}


def _cpu(given: Context) -> dict[str, int]:
    return {"cpu": 1, "memory": 1}


def _io(given: Context) -> dict[str, int]:
    return {"io": 1}


def _analysis_cost(given: Context) -> int:
    """One request locally. A model is asked once a part and once to merge them, and once more where
    an answer must be mended; what is not needed is given back."""
    return requests_for(known_parts(given)) if pipeline_settings().llm_base_url else 1


def _limits() -> dict[str, Mapping[str, Any]]:
    """OCR fills a core each, an endpoint may allow only so many requests at once, and the services
    papers come from want to be asked slowly."""
    config = pipeline_settings()
    return {
        "host:*": {"max_running": config.max_per_host},
        "resolver:*": {"max_running": config.max_per_resolver},
        **HOST_LIMITS,
        "engine:ocr": {"max_running": config.max_ocr},
        KEY: {"max_running": 0},
        REQUESTS: {"max_running": config.max_ocr_requests},
        "llm:chat": {"max_running": config.max_llm},
        LLM_REQUESTS: {"max_running": config.max_llm_requests},
    }


LIMIT_SETTINGS: Mapping[str, str] = {
    "max_per_host": "host:*",
    "max_per_resolver": "resolver:*",
    "max_ocr": "engine:ocr",
    "max_ocr_requests": REQUESTS,
    "max_llm": "llm:chat",
    "max_llm_requests": LLM_REQUESTS,
}
"""Which setting states the `max_running` of which limit."""


PAPERS = Flow(
    name="papers",
    phases=(
        Phase(
            "prep", rank=2, waiting="pending", running="prepping",
            steps=(
                Step("resolve", "papers.resolve", key=_resolver, tokens=_io),
                Step("fetch", "papers.fetch", key=_host, tokens=_io),
                Step("extract", "papers.extract", key=_tenant, tokens=_cpu),
                Step(
                    "ocr", "papers.ocr", key=_ocr, needed=_has_bare_pages, cost=_ocr_cost,
                    tokens=_ocr_tokens,
                ),
            ),
        ),
        Phase(
            "expensive", rank=0, waiting="prepped", running="analyzing",
            steps=(
                Step(
                    "analyse", "papers.analyse", key=_model, cost=_analysis_cost,
                    tokens=_model_tokens,
                ),
            ),
        ),
        Phase(
            "wrap", rank=1, waiting="analyzed", running="wrapping",
            steps=(Step("report", "papers.report", key=_tenant, tokens=_io),),
        ),
    ),
    parse_item=intake.parse_item,
    parse_remote_item=intake.parse_remote_item,
    register_items=intake.register_items,
    backfill=intake.backfill,
    error_kinds=ERROR_KINDS,
    limits=_limits,
    limit_settings=LIMIT_SETTINGS,
    checks=checkup,
    link=intake.link,
    artifacts=artifacts,
    export=export,
    cleanup=cleanup,
)  # fmt: skip
