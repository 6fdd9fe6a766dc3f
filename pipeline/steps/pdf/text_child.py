"""Reads text of strangers: references, chunks, quotes, an analysis, a link, TEI; runs inside the sandbox.

Heavy imports wait until they are needed, so that most texts are read a tenth of a second after the start.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any


def lines(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One line with the `result` of the function named."""
    yield {"result": FUNCTIONS[job["function"]](**job["arguments"])}


def paper(text: str, chunk_tokens: int | None, info: dict[str, str]) -> dict[str, Any]:
    """What the paper says of itself; its references, without the text of their list; and of the rest in how
    many chunks it is sent, and how many tokens these have, None without a number of tokens for one."""
    from pipeline.steps.analyse.marked_text import marked_before_references
    from pipeline.steps.extract.references import find_references
    from pipeline.steps.metadata.of_paper import of_paper

    found = find_references(text)
    sent = chunks(marked_before_references(text), chunk_tokens) if chunk_tokens else None
    return {
        "stated": of_paper(text, info),
        "found": {**asdict(found), "section": found.section[:1]},
        "chunks": None if sent is None else len(sent),
        "tokens": None if sent is None else sum(tokens(chunk, chunk_tokens or 0) for chunk in sent),
    }


def chunks_of_paper(text: str, chunk_tokens: int) -> dict[str, Any]:
    """The text before the references, with the marks of its pages, and the chunks it is sent in."""
    from pipeline.steps.analyse.marked_text import marked_before_references, without_marks

    body = marked_before_references(text)
    return {"body": body, "chunks": chunks(body, chunk_tokens) if without_marks(body).strip() else []}


def chunks(body: str, chunk_tokens: int) -> list[str]:
    from pipeline.steps.analyse.chunks import plan_chunks

    return list(plan_chunks(body, chunk_tokens).chunks)


def tokens(text: str, ceiling: int) -> int:
    """Tokens of a prompt, of which there are at most `ceiling`."""
    from pipeline.steps.analyse.chunks import without_endless_runs
    from pipeline.steps.analyse.split_by_tokens import tokens_in

    return tokens_in(without_endless_runs(text), ceiling)


def sentences(text: str, title_hint: str, count: int) -> dict[str, Any] | None:
    """An analysis of the paper's own sentences, with their pages; None if there is no text."""
    from pipeline.steps.analyse.extractive import extractive_analysis
    from pipeline.steps.analyse.marked_text import marked_before_references, without_marks

    body = marked_before_references(text)
    if not (plain := without_marks(body)).strip():
        return None
    found = extractive_analysis(plain, title_hint, count)
    return found | {"contributions": located(body, found["contributions"])}


def located(body: str, own: list[str]) -> list[dict[str, Any]]:
    """Sentences of the paper itself, as claims with their pages."""
    found = places(body, [(sentence, None) for sentence in own])
    return [
        {"text": sentence, "quote": sentence, "page": page, "verdict": "verified" if page else verdict}
        for sentence, (verdict, page) in zip(own, found, strict=True)
    ]


def places(text: str, quotes: list[tuple[str, int | None]]) -> list[list[Any]]:
    """Of each quote and the page that is said, the verdict and the page where it stands."""
    from pipeline.steps.analyse import quotes as quoted

    return [list(place) for place in quoted.places(text, quotes)]


def landing_page(page: str, url: str) -> dict[str, Any]:
    """The PDF that a page names, and what it says of the paper; the page in base64."""
    from pipeline.steps.fetch.landing_page import read_landing_page

    return read_landing_page(base64.b64decode(page), url)._asdict()


def tei(text: str) -> dict[str, Any]:
    """The references in an answer of GROBID, and its version; or why there are none."""
    from pipeline.steps.grobid.tei import references_in
    from queuemgr import StepFailed

    try:
        entries, version = references_in(text.encode("utf-8", "replace"))
    except StepFailed as failure:
        return {"entries": [], "version": "", "problem": failure.message}
    return {"entries": list(map(asdict, entries)), "version": version, "problem": ""}


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "paper": paper,
    "chunks_of_paper": chunks_of_paper,
    "chunks": chunks,
    "tokens": tokens,
    "sentences": sentences,
    "places": places,
    "landing_page": landing_page,
    "tei": tei,
}
