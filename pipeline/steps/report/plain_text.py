"""Text from outside, without what would hide or reverse it. Pure."""

from __future__ import annotations

import re

HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
    "|[\ud800-\udfff]"
)


def plain(text: str) -> str:
    """Without control characters and characters that reverse or hide text."""
    return HIDDEN.sub("", text)


def one_line(text: str) -> str:
    return " ".join(plain(text).split())


def paragraphs(text: str) -> list[str]:
    """Plain text split at blank lines, each paragraph on one line."""
    return [one_line(part) for part in re.split(r"\n\s*\n", text) if part.strip()]
