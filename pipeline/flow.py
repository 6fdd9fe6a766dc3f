"""The papers flow: what follows what, under which limits and at what cost. Read it top to bottom."""

from __future__ import annotations

from pipeline import intake
from pipeline.checkup import checkup
from pipeline.files import tidy
from pipeline.knobs import pipeline_knobs
from queuemgr.flow import Context, Flow, Phase, Step


def _resolver(given: Context) -> str:
    """Only DOIs are looked up elsewhere; the rest is resolved without asking anyone."""
    return "resolver:doi" if given.get("kind") == "doi" else ""


def _host(given: Context) -> str:
    return str(given.get("host_key", ""))


def _has_bare_pages(given: Context) -> bool:
    return bool(given.get("pages_without_text"))


def _model(given: Context) -> str:
    return "llm:chat" if pipeline_knobs().llm_base_url else ""


def _analysis_cost(given: Context) -> int:
    """One request; a model may need a second to mend its answer, given back when it did not."""
    return 2 if pipeline_knobs().llm_base_url else 1


def _limits() -> dict[str, dict[str, int]]:
    """OCR fills a core each, and an endpoint may allow only so many requests at once."""
    knobs = pipeline_knobs()
    return {
        "engine:ocr": {"max_running": knobs.max_ocr},
        "llm:chat": {"max_running": knobs.max_llm},
    }


PAPERS = Flow(
    name="papers",
    phases=(
        Phase(
            "prep", rank=2, waiting="pending", running="prepping",
            steps=(
                Step("resolve", "papers.resolve", key=_resolver),
                Step("fetch", "papers.fetch", key=_host),
                Step("extract", "papers.extract"),
                Step("ocr", "papers.ocr", key=lambda given: "engine:ocr", needed=_has_bare_pages),
            ),
        ),
        Phase(
            "expensive", rank=0, waiting="prepped", running="analyzing",
            steps=(Step("analyse", "papers.analyse", key=_model, cost=_analysis_cost),),
        ),
        Phase(
            "wrap", rank=1, waiting="analyzed", running="wrapping",
            steps=(Step("report", "papers.report"),),
        ),
    ),
    take_in=intake.take_in,
    know=intake.know_items,
    seed=intake.seed,
    limits=_limits,
    checkup=checkup,
    link=intake.link,
    tidy=tidy,
)  # fmt: skip
