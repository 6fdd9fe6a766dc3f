"""What one run of the fetch step leaves for the next, and what follows from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

from pipeline.steps.http.redirects import RedirectChain, key_of_host
from queuemgr import StepFailed

REDIRECT_LIFETIME = 300.0
"""Seconds after which a redirect may have expired, as signed links do: if its host then refuses it, it is
requested again from where the chain began."""

EXPIRED_LINK_STATUSES = frozenset({401, 403, 404, 410})
"""Statuses by which hosts refuse a signed link that has expired."""

CONTEXT_KEY = "fetch"


@dataclass(frozen=True)
class FetchState:
    """Progress over several runs of the step.

    `redirect_url`: where a redirect led, on another host; empty at the start of a chain. It may have
    expired from `redirect_expires_at` (seconds since the epoch) on, was received in the round of
    attempts `redirect_round`, after `failures_before_redirect` failures. `chain`: the redirects and
    cookies so far, see `RedirectChain`. `failures_before_url`: failures at earlier URLs of the
    document. `url_changed`: the URL is not the one our stored copy came from.
    """

    redirect_url: str = ""
    redirect_expires_at: float = 0.0
    redirect_round: str = ""
    failures_before_redirect: int = 0
    chain: Mapping[str, Any] = field(default_factory=dict)
    failures_before_url: int = 0
    url_changed: bool = False

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Self:
        stored = context.get(CONTEXT_KEY) or {}
        return cls(**{f.name: stored[f.name] for f in fields(cls) if f.name in stored})

    def to_context(self) -> dict[str, Any]:
        """Without what is empty."""
        return {CONTEXT_KEY: {name: value for name, value in asdict(self).items() if value}}

    def in_round(self, round_: str) -> Self:
        """The state to use in this round of attempts: a person's retry starts the chain again, with no
        redirect counted."""
        if not self.redirect_url or self.redirect_round == round_:
            return self
        return self.restarted(count_redirects=False)

    def restarted(self, *, count_redirects: bool = True) -> Self:
        """Back at the start of the chain. Redirects stay counted, so that repeating it ends."""
        chain = {
            "from_page": bool(self.chain.get("from_page")),
            "redirects": int(self.chain.get("redirects", 0)) if count_redirects else 0,
        }
        return type(self)(
            chain=chain, failures_before_url=self.failures_before_url, url_changed=self.url_changed
        )

    def redirected(self, url: str, chain: RedirectChain, *, now: float, round_: str, failures: int) -> Self:
        """The chain continues at `url`, under the limit of another host."""
        return replace(
            self,
            redirect_url=url,
            redirect_expires_at=now + REDIRECT_LIFETIME,
            redirect_round=round_,
            failures_before_redirect=failures,
            chain=chain.to_context(),
        )

    def linked_from_page(self, chain: RedirectChain) -> Self:
        """A page named the PDF at another host: that becomes the document's URL."""
        return replace(self, redirect_url="", chain=chain.to_context(), url_changed=True)

    def may_have_expired(self, now: float) -> bool:
        return bool(self.redirect_url) and now >= self.redirect_expires_at

    def is_expired_link(self, failure: StepFailed, *, now: float, failures: int) -> bool:
        """Whether the failure refuses a redirect that is old, or that has been followed before."""
        if failure.http_status not in EXPIRED_LINK_STATUSES or failure.kind == "rate_limited":
            return False
        followed_before = bool(self.redirect_url) and failures > self.failures_before_redirect
        return followed_before or self.may_have_expired(now)


class NextRequest(NamedTuple):
    """The URL to request, and the limit key of its host."""

    state: FetchState
    url: str
    host: str


def next_request(state: FetchState, pdf_url: str, leased_host: str, now: float) -> NextRequest:
    """What to request. Raises StepFailed("refused_address") for a URL without a host.

    A redirect that expired before its host's limit admitted us is followed all the same: requested
    again from the start it would wait as long once more.
    """
    url = state.redirect_url or pdf_url
    host = key_of_host(url)
    if host == leased_host or not state.may_have_expired(now):
        return NextRequest(state, url, host)
    return NextRequest(state.restarted(), pdf_url, key_of_host(pdf_url))
