"""What makes a service a source of papers: where and how it is asked, and how its answer reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from pipeline.steps.identify import Identifier
from pipeline.steps.resolve.sources.answer import Answer
from queuemgr import StepFailed


@dataclass(frozen=True)
class ResolveOptions:
    """Whom to ask, in which order, who we say we are, and how long each may take (`deadline`, s).

    `order` names the sources for DOIs. `ask_every_source`: go on asking though an open PDF is known.
    `arxiv_metadata`: ask arXiv about its papers, which costs a request each; their PDFs are found by
    rule without it. Keys are optional, and show in no repr.
    """

    contact_email: str = ""
    order: tuple[str, ...] = ("unpaywall", "crossref", "openalex", "semanticscholar")
    ask_every_source: bool = False
    arxiv_metadata: bool = True
    arxiv_url: str = "https://export.arxiv.org"
    unpaywall_url: str = "https://api.unpaywall.org"
    crossref_url: str = "https://api.crossref.org"
    openalex_url: str = "https://api.openalex.org"
    semanticscholar_url: str = "https://api.semanticscholar.org"
    openalex_api_key: str = field(default="", repr=False)
    semanticscholar_api_key: str = field(default="", repr=False)
    deadline: float = 60.0

    def base_url(self, source: str) -> str:
        return str(getattr(self, f"{source}_url")).rstrip("/")

    def api_key(self, source: str) -> str:
        return str(getattr(self, f"{source}_api_key", ""))


def _nothing(options: ResolveOptions) -> Mapping[str, str]:
    return {}


def _no_query(asked: Identifier, options: ResolveOptions) -> Mapping[str, str]:
    return {}


def _none(options: ResolveOptions) -> str:
    return ""


@dataclass(frozen=True)
class Source:
    """A service that may know where a paper is.

    `path` is what it is asked at, `query` and `headers` what goes along; `read` makes an Answer of a
    body or raises StepFailed("bad_answer"); `blocking_reasons` tells why it cannot be asked, or is empty;
    `understood` may give a failure the meaning it has at this service. `shared_pool`: asked without a
    key it shares one limit with everybody, so that its refusal is no reason to wait.
    """

    name: str
    title: str
    path: Callable[[Identifier], str]
    read: Callable[[bytes, Identifier], Answer]
    query: Callable[[Identifier, ResolveOptions], Mapping[str, str]] = _no_query
    headers: Callable[[ResolveOptions], Mapping[str, str]] = _nothing
    blocking_reasons: Callable[[ResolveOptions], str] = _none
    understood: Callable[[StepFailed], StepFailed] = lambda failure: failure
    shared_pool: bool = False

    @property
    def limit(self) -> str:
        """The limit every request to it passes."""
        return limit_of(self.name)

    def relied_on(self, options: ResolveOptions) -> bool:
        return not self.shared_pool or bool(options.api_key(self.name))


def limit_of(source: str) -> str:
    return f"resolver:{source}"


def escaped(name: str) -> str:
    """A name for one segment of a path. Slashes too: a DOI may hold `/../`, which must not climb."""
    return quote(name, safe="")
