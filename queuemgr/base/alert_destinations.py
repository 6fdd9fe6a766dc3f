"""Where alerts are sent, as the setting states it: `ops=mailto:ops@example.org,chat=chat+https://…`.

An address may be a secret: it is shown nowhere, and no error quotes it.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from queuemgr.base.webhook_signature import NAME

MOST = 20
"""Destinations: each alert is a message to every one."""

_MAILBOX = re.compile(r"[^\s@<>,;:\"']{1,64}@[^\s@<>,;:\"']{1,255}")


class Kind(StrEnum):
    """How a destination is reached."""

    MAIL = "mail"
    WEBHOOK = "webhook"
    CHAT = "chat"


class Destination(NamedTuple):
    """`place` is what may be shown of its address."""

    name: str
    kind: Kind
    address: str

    @property
    def place(self) -> str:
        """The host; of a mailbox what follows its @."""
        if self.kind == Kind.MAIL:
            return self.address.partition("@")[2]
        return urlsplit(self.address).netloc


def destinations_in(text: str) -> tuple[Destination, ...]:
    """Raises `ValueError`, which quotes no address."""
    found: dict[str, Destination] = {}
    for number, pair in enumerate(filter(None, map(str.strip, text.split(","))), start=1):
        name, is_there, address = (part.strip() for part in pair.partition("="))
        if not is_there or not NAME.fullmatch(name):
            raise ValueError(
                f"entry {number} does not begin with a name and =, as ops=mailto:ops@example.org"
            )
        if name in found:
            raise ValueError(f"{name} is stated twice")
        found[name] = _destination(name, address)
    if len(found) > MOST:
        raise ValueError(f"there are {len(found)} destinations; at most {MOST}")
    return tuple(found.values())


def _destination(name: str, address: str) -> Destination:
    scheme, _, rest = address.partition(":")
    mailbox = unquote(rest)
    if scheme == "mailto" and _MAILBOX.fullmatch(mailbox):
        return Destination(name, Kind.MAIL, mailbox)
    kind, url = (Kind.CHAT, address[5:]) if address.startswith("chat+") else (Kind.WEBHOOK, address)
    if url.startswith(("https://", "http://")) and len(url) <= 1000:
        return Destination(name, kind, url)
    raise ValueError(f"{name} is neither mailto:ops@example.org, nor https://…, nor chat+https://…")
