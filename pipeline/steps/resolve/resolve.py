"""Where the PDF of a document is, and its metadata: which source to ask next, and the conclusion.

One request a lease: the caller holds the limit of the source that is asked next, stores the result
and comes back. So each service's rate limit holds exactly, and no slot is held while waiting for a
service's limit.

Sources for a DOI are asked in the order of the options until one names an open PDF; arXiv is asked
about its own papers. A source that fails does not stop the others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from pipeline.steps.identify import Identifier
from pipeline.steps.resolve.resolve_state import CachedAnswers, ResolveState
from pipeline.steps.resolve.sources.answer import Address, Outcome, Paper, Rank
from pipeline.steps.resolve.sources.arxiv import ARXIV, pdf_url, versioned_id
from pipeline.steps.resolve.sources.crossref import CROSSREF
from pipeline.steps.resolve.sources.lookup_log import Inquiry
from pipeline.steps.resolve.sources.merge import merge_facts
from pipeline.steps.resolve.sources.openalex import OPENALEX
from pipeline.steps.resolve.sources.ranking import ranked
from pipeline.steps.resolve.sources.semanticscholar import SEMANTIC_SCHOLAR
from pipeline.steps.resolve.sources.source import ResolveOptions, Source
from pipeline.steps.resolve.sources.unpaywall import UNPAYWALL
from queuemgr import StepFailed

SOURCES: Mapping[str, Source] = {
    source.name: source for source in (ARXIV, UNPAYWALL, CROSSREF, OPENALEX, SEMANTIC_SCHOLAR)
}

ARXIV_TRIES = 2
"""Times arXiv is asked if it gives no answer; after that the PDF is fetched anyway."""

RETRY_SECONDS = 60.0
"""Seconds until a source that gave no answer is asked again."""

MAX_REDIRECTS = 3
"""Redirects of one source that are followed."""

RETRYABLE = frozenset({"network", "timeout", "rate_limited", "server_error", "bad_answer"})
"""Kinds of failure that a retry may resolve."""


@dataclass(frozen=True)
class Resolved:
    """Where the PDF is: at one of `addresses`, to be tried in order, or on this machine at `path`."""

    addresses: tuple[Address, ...] = ()
    path: str = ""
    paper: Paper = field(default_factory=Paper)


def without_lookup(identifier: Identifier) -> Resolved | None:
    """The result for a file or a URL, which need no lookup; None for other identifiers.

    Raises StepFailed("not_found") for a missing file.
    """
    match identifier.kind:
        case "file":
            return Resolved(path=_on_disk(identifier.value))
        case "url":
            is_pdf = httpx.URL(identifier.value).path.lower().endswith(".pdf")
            rank = Rank.OPEN_PDF if is_pdf else Rank.OPEN_PAGE
            return Resolved((Address(identifier.value, "url", rank),))
        case _:
            return None


def _on_disk(path: str) -> str:
    if not os.path.isfile(path):
        raise StepFailed("not_found", f"there is no file {path}")
    if not os.access(path, os.R_OK):
        raise StepFailed("not_found", f"this process may not read the file {path}")
    return path


# The next source


def sources_for(identifier: Identifier, options: ResolveOptions) -> list[Source]:
    """All sources that may know the paper, in the order they are asked."""
    if identifier.kind == "arxiv":
        return [ARXIV] if options.arxiv_metadata else []
    return [SOURCES[name] for name in options.order]


def unavailable_sources(identifier: Identifier, options: ResolveOptions) -> tuple[Inquiry, ...]:
    """Entries about sources that cannot be asked with these settings."""
    reasons = ((source, source.unavailable_reason(options)) for source in sources_for(identifier, options))
    return tuple(
        Inquiry(source.name, Outcome.NOT_ASKED, f"not asked: {reason}")
        for source, reason in reasons
        if reason
    )


def resume(
    identifier: Identifier, options: ResolveOptions, lookups: Sequence[Any], cached: CachedAnswers
) -> ResolveState:
    """The current round, continued with stored answers as long as they are fresh."""
    unavailable = unavailable_sources(identifier, options)
    state = ResolveState.from_lookups(lookups, cached, unavailable)
    while (source := next_source(identifier, options, state)) and _is_cached(source, state, cached):
        answer = cached.answers[source.name]
        state = state.with_inquiry(Inquiry.answered(source, answer, cached=True), answer)
    return state


def _is_cached(source: Source, state: ResolveState, cached: CachedAnswers) -> bool:
    return source.name in cached.fresh and not state.inquiries_at(source)


def next_source(identifier: Identifier, options: ResolveOptions, state: ResolveState) -> Source | None:
    """The source to ask now; None when enough is known, or no source is left."""
    if not options.ask_every_source and _suffices(state, options):
        return None
    candidates = sources_for(identifier, options)
    return next((source for source in candidates if _is_due(source, state)), None)


def seconds_before(source: Source, state: ResolveState) -> float:
    """Seconds to wait before asking this source, the next one."""
    past = state.inquiries_at(source)
    return RETRY_SECONDS if past and past[-1].outcome != Outcome.MOVED else 0.0


def _suffices(state: ResolveState, options: ResolveOptions) -> bool:
    """Whether an open PDF and a title are known: another request would add little."""
    best = _addresses(state, options)[:1]
    has_title = any(answer.paper.title for answer in state.answers.values())
    return has_title and bool(best) and best[0].rank == Rank.OPEN_PDF


def _is_due(source: Source, state: ResolveState) -> bool:
    past = state.inquiries_at(source)
    if not past:
        return True
    if past[-1].outcome == Outcome.MOVED:
        return len(past) <= MAX_REDIRECTS
    unanswered = past[-1].outcome == Outcome.UNSURE or past[-1].kind in RETRYABLE
    return source is ARXIV and unanswered and len(past) < ARXIV_TRIES


# The conclusion


def conclude(identifier: Identifier, options: ResolveOptions, state: ResolveState) -> Resolved:
    """All answers as one result.

    Raises StepFailed: "unresolvable" if every source answered and none named an address, else the
    kind of the first failed source, retryable failures first.
    """
    paper = _with_own_id(identifier, merge_facts(state.answers))
    addresses = _addresses(state, options)
    if identifier.kind == "arxiv":
        return Resolved(addresses or _arxiv_pdf(identifier, options), paper=paper)
    if failure := _failure_to_retry(state, options, addresses[:1]):
        raise StepFailed(failure.kind, _not_found_message(identifier, state), retry_after=failure.retry_after)
    if not addresses:
        raise StepFailed("unresolvable", _not_found_message(identifier, state))
    return Resolved(addresses, paper=paper)


def _addresses(state: ResolveState, options: ResolveOptions) -> tuple[Address, ...]:
    given = (address for answer in state.answers.values() for address in answer.addresses)
    return ranked(given, options.arxiv_url)


def _arxiv_pdf(identifier: Identifier, options: ResolveOptions) -> tuple[Address, ...]:
    url = pdf_url(options.arxiv_url, identifier.value, identifier.version)
    return (Address(url, ARXIV.name),)


def _with_own_id(identifier: Identifier, paper: Paper) -> Paper:
    """The identifier we asked with is certain, whatever the sources say."""
    if identifier.kind == "doi":
        return replace(paper, doi=identifier.value if len(identifier.value) <= 255 else "")
    return replace(paper, arxiv_id=paper.arxiv_id or versioned_id(identifier.value, identifier.version))


def _failure_to_retry(
    state: ResolveState, options: ResolveOptions, best: tuple[Address, ...]
) -> Inquiry | None:
    """The failure for which the step should be retried, if any.

    Without an address that is any failure. With only a publisher's page it is a retryable failure of a
    reliable source: that source may know an open copy.
    """
    failed = [inquiry for inquiry in state.inquiries if inquiry.outcome == Outcome.FAILED]
    retryable = [inquiry for inquiry in failed if inquiry.kind in RETRYABLE]
    if not best:
        return next(iter([*retryable, *failed]), None)
    if best[0].rank < Rank.PAGE:
        return None
    return next((i for i in retryable if SOURCES[i.source].is_reliable(options)), None)


def _not_found_message(identifier: Identifier, state: ResolveState) -> str:
    details = (f"{SOURCES[i.source].title}: {i.detail}" for i in state.inquiries)
    asked = "; ".join(details) or "no source is configured (see SLUICE_RESOLVERS)"
    return f"no open PDF is known for doi:{identifier.value}. {asked}"
