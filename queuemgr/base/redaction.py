"""Masks secrets in rows, logs and events: registered values and passwords in URLs."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from urllib.parse import quote

from queuemgr.base.raised import type_name

MESSAGE_LIMIT = 2000
"""Most characters of a message stored in a row."""

_secrets: set[str] = set()
_IN_URL = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")
_QUERY = re.compile(r"(?P<address>\b[a-z][a-z0-9+.-]{0,20}://[^\s?#\"<>]*)[?#][^\s\"<>]*", re.I)
"""A `'` may be in a URL, so one behind it is masked, too."""


def register_secret(value: str) -> None:
    """Mask this value from now on, as it is and as URLs, HTML, JSON and `repr` write it; values below
    6 characters, and what is masked already, are ignored. Of several lines each is masked by itself too."""
    lines = value.splitlines()
    for line in lines if len(lines) > 1 else ():
        register_secret(line)
    if len(value) >= 6 and value.strip("*"):
        _secrets.update({value, quote(value, safe=""), html.escape(value), repr(value.encode())[2:-1]})
        quoted = (repr(value), ascii(value), json.dumps(value), json.dumps(value, ensure_ascii=False))
        _secrets.update(text[1:-1] for text in quoted)


def describe_error(error: BaseException) -> str:
    """The class and message of an error, even if its `__str__` raises, exits or returns no text."""
    name = type_name(error)
    try:
        return f"{name}: {error}"
    except BaseException as second:
        return f"{name} (its message raised {type_name(second)})"


def message_of(error: BaseException) -> str:
    """The message of an error; with its class where there is none to be read."""
    try:
        return f"{error}"
    except BaseException:
        return describe_error(error)


def without_secrets(text: str) -> str:
    """`text` with secrets and passwords in URLs replaced by `***`."""
    found = [secret for secret in list(_secrets) if secret in text]  # a copy: threads add to it
    for secret in sorted(found, key=len, reverse=True):  # one may be part of another
        text = text.replace(secret, "***")
    return _IN_URL.sub("***:***", text)


def storable(text: str) -> str:
    """`text` with what no row can hold of it, NUL and lone surrogates, replaced."""
    text = text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    return text.encode("utf-8", "replace").decode("utf-8")


def clean(text: str) -> str:
    """`text` as stored in a row: secrets and passwords in URLs masked, no NUL and no lone surrogates, at
    most `MESSAGE_LIMIT` characters."""
    text = storable(without_secrets(text))
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


def without_secrets_in(value: Any) -> Any:
    """JSON with secrets and passwords in URLs replaced in each of its texts and names, and nothing else."""
    if isinstance(value, dict):
        return {without_secrets(str(name)): without_secrets_in(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_secrets_in(inner) for inner in value]
    return without_secrets(value) if isinstance(value, str) else value


def masked(value: Any) -> Any:
    """JSON as shown to people: each text as by `clean`, and URLs without their query, which may be the
    signature of a signed link."""
    if isinstance(value, dict):
        return {masked(str(name)): masked(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner) for inner in value]
    return _QUERY.sub(r"\g<address>?***", clean(value)) if isinstance(value, str) else value
