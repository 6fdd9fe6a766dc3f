"""Keeping secrets out of error rows, logs and events: known values are replaced wherever they show."""

from __future__ import annotations

import re
from typing import Any

MESSAGE_LIMIT = 2000
"""Characters of an error message kept in a row."""

_secrets: set[str] = set()
_IN_URL = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")
_QUERY = re.compile(r"(?P<address>\b[a-z][a-z0-9+.-]{0,20}://[^\s?#\"'<>]*)[?#][^\s\"'<>]*", re.I)


def register_secret(value: str) -> None:
    """Never show this value again; values too short to be secrets are ignored."""
    if len(value) >= 6:
        _secrets.add(value)


def describe_error(error: Exception) -> str:
    """The class of an error and its words; an error that cannot be told is still named."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception as second:
        return f"{name}, which cannot be told ({type(second).__name__})"


def without_secrets(text: str) -> str:
    """`text` with secrets and passwords in URLs replaced by stars."""
    for secret in tuple(_secrets):
        text = text.replace(secret, "***")
    return _IN_URL.sub("***:***", text)


def clean(text: str) -> str:
    """`text` fit for a row: secrets and passwords in URLs masked, no NUL, not endless."""
    text = without_secrets(text).replace("\x00", "\N{REPLACEMENT CHARACTER}")
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


def masked(value: Any) -> Any:
    """JSON fit to be shown: secrets masked, each text cut where messages are, and URLs without their
    queries, where signed links hold what makes them valid."""
    if isinstance(value, dict):
        return {masked(str(name)): masked(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner) for inner in value]
    return _QUERY.sub(r"\g<address>?***", clean(value)) if isinstance(value, str) else value
