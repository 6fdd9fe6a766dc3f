"""What a metadata source consists of: how to ask it, and how to read its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from pipeline.steps.identify import Identifier
from pipeline.steps.resolve.sources.answer import Answer
from queuemgr import StepFailed


@dataclass(frozen=True)
class ResolveOptions:
    """The sources to ask, their URLs and keys, and the `deadline` of each request in seconds.

    `order`: the sources for DOIs. `ask_every_source`: ask the others even if an open PDF is known.
    `arxiv_metadata`: ask arXiv about its papers, one request each; without it their PDFs are found by
    their id alone. Keys are optional, and left out of the repr.
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


def _no_query(identifier: Identifier, options: ResolveOptions) -> Mapping[str, str]:
    return {}


def _none(options: ResolveOptions) -> str:
    return ""


@dataclass(frozen=True)
class Source:
    """A service that may know where a paper is.

    `path`, `query` and `headers` make the request; `read` turns a body into an Answer or raises
    StepFailed("bad_answer"); `unavailable_reason`: why it cannot be asked, or empty; `interpret` gives
    a failure the meaning it has at this service. `shared_pool`: without a key all clients share one
    limit, so a refusal is no reason to wait.
    """

    name: str
    title: str
    path: Callable[[Identifier], str]
    read: Callable[[bytes, Identifier], Answer]
    query: Callable[[Identifier, ResolveOptions], Mapping[str, str]] = _no_query
    headers: Callable[[ResolveOptions], Mapping[str, str]] = _nothing
    unavailable_reason: Callable[[ResolveOptions], str] = _none
    interpret: Callable[[StepFailed], StepFailed] = lambda failure: failure
    shared_pool: bool = False

    @property
    def limit(self) -> str:
        """The limit that applies to every request to it."""
        return limit_of(self.name)

    def is_reliable(self, options: ResolveOptions) -> bool:
        return not self.shared_pool or bool(options.api_key(self.name))


def limit_of(source: str) -> str:
    return f"resolver:{source}"


def escaped(name: str) -> str:
    """A name as one path segment, with slashes escaped: a DOI may contain `/../`."""
    return quote(name, safe="")
