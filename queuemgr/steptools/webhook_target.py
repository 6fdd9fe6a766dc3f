"""Where a webhook is sent: what its URL may be, the limit of its host, and the addresses that it has."""

from __future__ import annotations

import ipaddress
import socket
from typing import NamedTuple
from urllib.parse import urlsplit

from queuemgr.base.column_sizes import MAX_LIMIT_KEY
from queuemgr.base.errors import BadInput, StepFailed
from queuemgr.steptools.special_addresses import is_special

DEFAULT_PORTS = {"http": 80, "https": 443}

LIMIT = "webhook:"
"""Before host and port, in the name of the limit that deliveries to them are under."""

REFUSED, FAILED, GONE = "webhook_refused", "webhook_failed", "webhook_gone"
"""Error kinds of deliveries."""


_NOT_IN_URLS = "\x7f\"'<>\\^`{|}"
"""What ends a URL in a text, where its query is masked, and what RFC 3986 has in none."""


class Target(NamedTuple):
    """A URL taken apart; `path` has the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def place(self) -> str:
        """Host and port, as messages name it: a path or a query may be a secret."""
        return f"{self.host}:{self.port}"

    @property
    def limit(self) -> str:
        return f"{LIMIT}{self.place}"


def parse(url: str, *, allow_private: bool) -> Target:
    """Raises `BadInput`, which does not quote the URL: it may hold a secret."""
    if not url.isascii() or any(character <= " " or character in _NOT_IN_URLS for character in url):
        raise BadInput(
            "a webhook's URL is of printable ASCII characters without quotes and <>: write others as %XX, "
            "hosts as xn--"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadInput("a webhook's URL cannot be read: look at its host and its port") from None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise BadInput("a webhook's URL begins with https:// and a host")
    if parts.scheme == "http" and not allow_private:
        raise BadInput("a webhook's URL begins with https://; http is for private addresses, where allowed")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise BadInput("a webhook's URL has no user, no password and no fragment: deliveries are signed")
    path = parts.path or "/"
    target = Target(
        parts.scheme, parts.hostname, port or DEFAULT_PORTS[parts.scheme],
        f"{path}?{parts.query}" if parts.query else path,
    )  # fmt: skip
    if len(target.limit) > MAX_LIMIT_KEY:
        raise BadInput(f"the host of a webhook's URL has {len(target.host)} characters, more than there are")
    return target


def limit_of(url: str) -> str:
    """The limit of a URL that was accepted; "" for one that no longer is."""
    try:
        return parse(url, allow_private=True).limit
    except BadInput:
        return ""


def addresses_of(target: Target, *, allow_private: bool) -> list[str]:
    """The IP addresses of its host. Raises `StepFailed`, also where one of them is none of the public
    internet: one among others is how DNS rebinding works."""
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise StepFailed(FAILED, f"{target.host} could not be resolved: {error}") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses if not allow_private else ():
        if is_special(ipaddress.ip_address(address)):
            raise StepFailed(
                REFUSED,
                f"{target.host} has an address that is private or local: allow that where it is wanted",
            )
    return addresses
