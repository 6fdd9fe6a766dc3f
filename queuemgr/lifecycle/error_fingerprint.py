"""Error fingerprints: equal for failures whose messages differ only in details."""

from __future__ import annotations

import re
from hashlib import sha256

from queuemgr.base.redaction import MESSAGE_LIMIT

DIGITS = 16
"""Hex digits of a fingerprint, as wide as its column."""

SIGNIFICANT = 400
"""Characters of the message, without its details, that distinguish failures: the end of a long one is
mostly a response body or a list."""

_DETAILS = (
    (re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>]+", re.IGNORECASE), "<url>"),
    (
        re.compile(
            r"\"[^\"\n]*(?:\"|…$)|`[^`\n]*(?:`|…$)|“[^”\n]*(?:”|…$)|«[^»\n]*(?:»|…$)"
            r"|(?<!\w)'[^'\n]*(?:'(?!\w)|…$)"
        ),
        "<text>",
    ),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"(?<![\w<])(?:[A-Za-z]:)?(?:[\\/][\w.@%+~-]+){2,}[\\/]?"), "<path>"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[a-f]*[0-9])[0-9a-f]{8,}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "<n>"),
    (re.compile(r"\s+"), " "),
)
"""What differs between failures of one cause, in the order in which it is replaced. Quoted text may have
been truncated."""


def fingerprint(kind: str, step: str, message: str) -> str:
    """16 hex digits, the same for failures of one kind at one step whose messages differ in numbers,
    ids, URLs, paths or quoted text alone; the same in every process and on every day."""
    text = "\0".join((kind, step, without_details(message)))
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:DIGITS]


def without_details(message: str) -> str:
    """The message with details replaced by placeholders such as `<n>`. Reads as much of it as a row holds."""
    message = message[:MESSAGE_LIMIT]
    for detail, instead in _DETAILS:
        message = detail.sub(instead, message)
    return message.strip()[:SIGNIFICANT]
