"""A chain of requests for one file: its redirects and cookies, and the host it must stay with.

Each host has a limit of its own, and a step works under that of one. Where a chain leads to another
host the step ends, and goes on from there once that host's limit lets it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from pipeline.steps.http.safe_addresses import shown
from pipeline.steps.identify import host_key
from queuemgr import BadInput, StepFailed

MAX_REDIRECTS = 5
MAX_COOKIES = 4096
"""Characters of cookies that go along to another host; a chain with more goes on without any."""


class LeadsElsewhere(Exception):
    """The chain goes on at another host, to be asked under its own limit."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url


@dataclass
class Trip:
    """`host` is the limit key (`host:name:port`) of the one host that may be asked; empty: any.

    `from_page` says that the chain has already followed the link of a page.
    """

    host: str = ""
    redirects: int = 0
    from_page: bool = False
    cookies: httpx.Cookies = field(default_factory=httpx.Cookies)

    def redirected(self, url: httpx.URL) -> None:
        """Take one more redirect. Raises LeadsElsewhere, and StepFailed past MAX_REDIRECTS."""
        self.redirects += 1
        if self.redirects > MAX_REDIRECTS:
            raise StepFailed(
                "http_error", f"it redirects more than {MAX_REDIRECTS} times, last to {shown(url)}"
            )
        self.stay(str(url))

    def stay(self, url: str) -> None:
        """Raise LeadsElsewhere when the URL is another host's, StepFailed when it is no one's."""
        if self.host and key_of_host(url) != self.host:
            raise LeadsElsewhere(url)

    def as_context(self) -> dict[str, Any]:
        """As JSON can hold it. The host is left out: the next step stays with another."""
        cookies = [
            {
                "name": c.name,
                "value": c.value,
                "domain": c.domain,
                "path": c.path,
                "secure": c.secure,
            }
            for c in self.cookies.jar
        ]
        known = cookies if len(str(cookies)) <= MAX_COOKIES else []
        return {"redirects": self.redirects, "from_page": self.from_page, "cookies": known}

    @classmethod
    def of_context(cls, host: str, said: dict[str, Any]) -> Self:
        """The chain that `as_context` told of, on its way at `host`."""
        trip = cls(host, int(said.get("redirects", 0)), bool(said.get("from_page")))
        for cookie in said.get("cookies", ()):
            trip.cookies.set(cookie["name"], cookie["value"], cookie["domain"], cookie["path"])
        secure = {(c["name"], c["domain"]) for c in said.get("cookies", ()) if c["secure"]}
        for kept in trip.cookies.jar:
            kept.secure = (kept.name, kept.domain) in secure
        return trip


def key_of_host(url: str) -> str:
    """The limit key of a URL's host; raises StepFailed("refused_address") where it has none."""
    try:
        return host_key(url)
    except BadInput as error:
        raise StepFailed("refused_address", f"not a URL that can be fetched: {error}") from error
