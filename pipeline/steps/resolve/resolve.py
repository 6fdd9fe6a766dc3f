"""Where the PDF of a document is, and what is known of it: which source is asked next, what came of
it, and what follows from all of it.

One request a turn: whoever calls this passes the limit of the one source that is asked next, keeps
what came of it, and comes back. So each service's rate holds exactly, and while one is waited for no
slot of another is held.

Sources of a DOI are asked in the order of the options until one names an open PDF; arXiv is asked
about its own papers. A source that fails stops no other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import httpx

from pipeline.steps.identify import Identifier
from pipeline.steps.resolve.sources.answer import Address, Answer, Outcome, Paper, Rank
from pipeline.steps.resolve.sources.arxiv import ARXIV, pdf_url, spelled
from pipeline.steps.resolve.sources.crossref import CROSSREF
from pipeline.steps.resolve.sources.lookup_log import Inquiry
from pipeline.steps.resolve.sources.merge import merged
from pipeline.steps.resolve.sources.openalex import OPENALEX
from pipeline.steps.resolve.sources.ranking import in_order
from pipeline.steps.resolve.sources.semanticscholar import SEMANTIC_SCHOLAR
from pipeline.steps.resolve.sources.source import ResolveOptions, Source
from pipeline.steps.resolve.sources.unpaywall import UNPAYWALL
from queuemgr import StepFailed

SOURCES: Mapping[str, Source] = {
    source.name: source for source in (ARXIV, UNPAYWALL, CROSSREF, OPENALEX, SEMANTIC_SCHOLAR)
}

FOR_DOIS = ("unpaywall", "crossref", "openalex", "semanticscholar")
"""Names the order of the options may hold."""

ASKED_AGAIN = 2
"""Times arXiv is asked when it gives no answer: the paper is there, so the PDF is fetched anyway."""

AGAIN_AFTER = 60.0
"""Seconds until a source that gave no answer is asked again."""

MOVES = 3
"""Redirects of one source that are taken."""

RETRYABLE = frozenset({"network", "timeout", "rate_limited", "server_error", "bad_answer"})
"""Kinds of failure that another try may mend."""


@dataclass(frozen=True)
class Round:
    """What was asked so far, and what was answered, by source."""

    inquiries: tuple[Inquiry, ...] = ()
    answers: Mapping[str, Answer] = field(default_factory=dict)

    def of(self, source: Source) -> list[Inquiry]:
        return [inquiry for inquiry in self.inquiries if inquiry.source == source.name]

    def with_one(self, inquiry: Inquiry, answer: Answer | None) -> Round:
        answers = {**self.answers, inquiry.source: answer} if answer else self.answers
        return Round((*self.inquiries, inquiry), answers)


@dataclass(frozen=True)
class Resolved:
    """Where the PDF is: at one of `addresses`, to be tried in order, or already here at `path`."""

    addresses: tuple[Address, ...] = ()
    path: str = ""
    paper: Paper = field(default_factory=Paper)


def at_hand(identifier: Identifier) -> Resolved | None:
    """A file or a URL, for which nobody needs to be asked; None for what must be looked up.

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
        raise StepFailed("not_found", f"the file {path} may not be read by this process")
    return path


# Which source is asked next


def sources_for(identifier: Identifier, options: ResolveOptions) -> list[Source]:
    """Everyone who may know the paper, in the order they are asked."""
    if identifier.kind == "arxiv":
        return [ARXIV] if options.arxiv_metadata else []
    return [SOURCES[name] for name in options.order]


def excused(identifier: Identifier, options: ResolveOptions) -> tuple[Inquiry, ...]:
    """Lines about sources that cannot be asked as things are set up."""
    reasons = (
        (source, source.blocking_reasons(options)) for source in sources_for(identifier, options)
    )
    return tuple(
        Inquiry(s.name, Outcome.NOT_ASKED, f"not asked: {why}") for s, why in reasons if why
    )


def next_to_ask(identifier: Identifier, options: ResolveOptions, so_far: Round) -> Source | None:
    """The source to ask now; None when enough is known, or nobody is left to ask."""
    if not options.ask_every_source and _suffices(so_far, options):
        return None
    candidates = sources_for(identifier, options)
    return next((source for source in candidates if _is_due(source, so_far)), None)


def wait_before(source: Source, so_far: Round) -> float:
    """Seconds until this source, due now, should be asked."""
    past = so_far.of(source)
    return AGAIN_AFTER if past and past[-1].outcome != Outcome.MOVED else 0.0


def _suffices(so_far: Round, options: ResolveOptions) -> bool:
    """An open PDF and a title: another source would cost a request and add little."""
    best = _addresses(so_far, options)[:1]
    has_title = any(answer.paper.title for answer in so_far.answers.values())
    return has_title and bool(best) and best[0].rank == Rank.OPEN_PDF


def _is_due(source: Source, so_far: Round) -> bool:
    past = so_far.of(source)
    if not past:
        return True
    if past[-1].outcome == Outcome.MOVED:
        return len(past) <= MOVES
    unanswered = past[-1].outcome == Outcome.UNSURE or past[-1].kind in RETRYABLE
    return source is ARXIV and unanswered and len(past) < ASKED_AGAIN


# What follows


def conclude(identifier: Identifier, options: ResolveOptions, so_far: Round) -> Resolved:
    """All that was learnt, as one result.

    Raises StepFailed: "unresolvable" when every source answered and none named an address, else the
    kind of the first source that could not answer, of those another try may mend before others.
    """
    paper = _own_name(identifier, merged(so_far.answers))
    addresses = _addresses(so_far, options)
    if identifier.kind == "arxiv":
        return Resolved(addresses or _by_rule(identifier, options), paper=paper)
    if failure := _in_the_way(so_far, options, addresses[:1]):
        raise StepFailed(
            failure.kind, _nothing_known(identifier, so_far), retry_after=failure.retry_after
        )
    if not addresses:
        raise StepFailed("unresolvable", _nothing_known(identifier, so_far))
    return Resolved(addresses, paper=paper)


def _addresses(so_far: Round, options: ResolveOptions) -> tuple[Address, ...]:
    given = (address for answer in so_far.answers.values() for address in answer.addresses)
    return in_order(given, options.arxiv_url)


def _by_rule(identifier: Identifier, options: ResolveOptions) -> tuple[Address, ...]:
    url = pdf_url(options.arxiv_url, identifier.value, identifier.version)
    return (Address(url, ARXIV.name),)


def _own_name(identifier: Identifier, paper: Paper) -> Paper:
    """The name it was asked by is known, whatever the sources say."""
    if identifier.kind == "doi":
        return replace(paper, doi=identifier.value if len(identifier.value) <= 255 else "")
    return replace(paper, arxiv_id=paper.arxiv_id or spelled(identifier.value, identifier.version))


def _in_the_way(
    so_far: Round, options: ResolveOptions, best: tuple[Address, ...]
) -> Inquiry | None:
    """The failure that should be waited out, if any.

    With no address at all that is any failure. With nothing better than a publisher's page it is one
    that another try may mend, of a source that can be relied on: it may know an open copy.
    """
    failed = [inquiry for inquiry in so_far.inquiries if inquiry.outcome == Outcome.FAILED]
    mendable = [inquiry for inquiry in failed if inquiry.kind in RETRYABLE]
    if not best:
        return next(iter([*mendable, *failed]), None)
    if best[0].rank < Rank.PAGE:
        return None
    return next((i for i in mendable if SOURCES[i.source].relied_on(options)), None)


def _nothing_known(identifier: Identifier, so_far: Round) -> str:
    said = (f"{SOURCES[i.source].title}: {i.detail}" for i in so_far.inquiries)
    asked = "; ".join(said) or "there is no source to ask (see SLUICE_RESOLVERS)"
    return f"no open PDF is known for doi:{identifier.value}. {asked}"
