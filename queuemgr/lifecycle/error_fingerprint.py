"""What failures have in common: a short name that is the same though their messages differ in detail."""

from __future__ import annotations

import re
from hashlib import sha256

DIGITS = 16
"""Hex digits of a fingerprint, as wide as its column."""

LOOKED_AT = 400
"""Characters of the message, its details taken out, that tell failures apart: the end of a long one is
most often a body or a list of what was met."""

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
"""What differs between failures of one cause, in the order it is taken out. What was quoted may have
been cut off at the end."""


def fingerprint(kind: str, step: str, message: str) -> str:
    """16 hex digits, the same for failures of one kind at one step whose messages differ in numbers,
    ids, URLs, paths or quoted text alone; the same in every process and on every day."""
    told = "\0".join((kind, step, without_details(message)))
    return sha256(told.encode("utf-8", "replace")).hexdigest()[:DIGITS]


def without_details(message: str) -> str:
    """The message with what differs from failure to failure taken out."""
    for detail, instead in _DETAILS:
        message = detail.sub(instead, message)
    return message.strip()[:LOOKED_AT]
