"""Character references of HTML (`&amp;`, `&#233;`) as characters, however long their numbers are. Pure."""

from __future__ import annotations

import html
import re

_LONG_NUMBER = re.compile(r"&#(?:[0-9]{20,}|[xX][0-9a-fA-F]{20,});?")


def without_long_numbers(text: str) -> str:
    """The text with U+FFFD for references to no character, as browsers show them. Python raises for
    numbers of more than 4,300 digits, here and in its parser of HTML."""
    return _LONG_NUMBER.sub("\N{REPLACEMENT CHARACTER}", text)


def unescaped(text: str) -> str:
    return html.unescape(without_long_numbers(text))
