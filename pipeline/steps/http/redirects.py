"""A chain of requests for one file: its redirects and cookies, and the one host it may ask.

Each host has its own limit, and a step holds the limit of one host. If a chain leads to another host,
the step ends and continues there once that host's limit admits it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from pipeline.steps.http.shown import shown
from pipeline.steps.identify import host_key
from queuemgr import BadInput, StepFailed

MAX_REDIRECTS = 5
MAX_COOKIES = 4096
"""Characters of cookies kept when the chain continues at another host; with more, none are kept."""


class HostChanged(Exception):
    """The chain continues at another host, under that host's limit."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url


@dataclass
class RedirectChain:
    """`host`: limit key (`host:name:port`) of the only host that may be asked; empty for any.

    `from_page`: the chain has already followed the PDF link of a page; `stated`: what that page says of the
    paper, in this lease.
    """

    host: str = ""
    redirects: int = 0
    from_page: bool = False
    cookies: httpx.Cookies = field(default_factory=httpx.Cookies)
    stated: Mapping[str, Any] = field(default_factory=dict)

    def redirected(self, url: httpx.URL) -> None:
        """Count a redirect. Raises HostChanged, and StepFailed after more than MAX_REDIRECTS."""
        self.redirects += 1
        if self.redirects > MAX_REDIRECTS:
            raise StepFailed(
                "http_error", f"more than {MAX_REDIRECTS} redirects, the last to {shown(str(url))}"
            )
        self.require_host(str(url))

    def require_host(self, url: str) -> None:
        """Raise HostChanged if the URL is on another host, StepFailed if it names no host."""
        if self.host and key_of_host(url) != self.host:
            raise HostChanged(url)

    def to_context(self) -> dict[str, Any]:
        """As JSON, without the host: the chain continues at another one."""
        cookies = [
            {"name": c.name, "value": c.value, "domain": c.domain, "path": c.path, "secure": c.secure}
            for c in self.cookies.jar
        ]
        known = cookies if len(str(cookies)) <= MAX_COOKIES else []
        return {"redirects": self.redirects, "from_page": self.from_page, "cookies": known}

    @classmethod
    def from_context(cls, host: str, stored: Mapping[str, Any]) -> Self:
        """The chain `to_context` stored, continued at `host`."""
        chain = cls(host, int(stored.get("redirects", 0)), bool(stored.get("from_page")))
        for cookie in stored.get("cookies", ()):
            chain.cookies.set(cookie["name"], cookie["value"], cookie["domain"], cookie["path"])
        secure = {(c["name"], c["domain"]) for c in stored.get("cookies", ()) if c["secure"]}
        for cookie in chain.cookies.jar:
            cookie.secure = (cookie.name, cookie.domain) in secure
        return chain


def key_of_host(url: str) -> str:
    """The limit key of a URL's host; raises StepFailed("refused_address") if it has none."""
    try:
        return host_key(url)
    except BadInput as error:
        raise StepFailed("refused_address", f"not a URL that can be fetched: {error}") from error
