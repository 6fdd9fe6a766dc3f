"""The signature of a webhook, as Standard Webhooks 1.0 has it, and the secrets it is made with.

A secret is `whsec_` and 24 to 64 random bytes in base64. It is in a setting, and nowhere in the database.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

PREFIX = "whsec_"
FEWEST_BYTES, MOST_BYTES = 24, 64

NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
"""How webhooks and their secrets are called."""


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def keys_by_name(text: str) -> Mapping[str, Sequence[bytes]]:
    """The keys in `name=whsec_…,name=whsec_…`, by name. Raises `ValueError`, which quotes no secret."""
    found: dict[str, list[bytes]] = defaultdict(list)
    for number, pair in enumerate(filter(None, map(str.strip, text.split(","))), start=1):
        name, is_there, secret = pair.partition("=")
        if not is_there or not NAME.fullmatch(name.strip()):
            raise ValueError(f"entry {number} does not begin with a name and =, as billing=whsec_…")
        found[name.strip()].append(_key(name.strip(), secret.strip()))
    return dict(found)


def _key(name: str, secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not FEWEST_BYTES <= len(key) <= MOST_BYTES:
        raise ValueError(
            f"the secret of {name} is not whsec_ and {FEWEST_BYTES} to {MOST_BYTES} bytes in base64: "
            "`queue webhook secret` makes one"
        )
    return key


def signatures(keys: Iterable[bytes], message: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`: one signature for each key, the receiver may know either."""
    signed = f"{message}.{timestamp}.".encode() + body
    digests = (hmac.new(key, signed, hashlib.sha256).digest() for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
