"""Reading untrusted JSON: any field may be missing, of another type, or contain control characters."""

from __future__ import annotations

import json
import re
from typing import Any

from pipeline.steps.http.character_references import unescaped
from queuemgr import StepFailed

MAX_TITLE = 500
"""Characters: the size of the database column."""

MAX_AUTHORS, MAX_NAME = 500, 200
"""Authors kept of one paper, and characters of each name. Collaborations have thousands."""

MAX_ABSTRACT = 4_000

MAX_RAW = 20_000
"""Characters of a text that are looked at, so that a long one costs no time."""

MAX_URL = 4000
"""Characters: longer URLs are ignored."""

_MARKUP = re.compile(r"</?(?:jats:|mml:)?(?:i|b|em|strong|sub|sup|sc|scp|tt|u|italic|bold|span)>", re.I)
_TAG = re.compile(r"<[^<>]{1,200}>")
_DOI_URL = re.compile(r"^(?:https?://)?(?:dx\.)?doi\.org/|^doi:\s*", re.IGNORECASE)


def record_of(body: bytes, source: str) -> dict[str, Any]:
    """The JSON object in a body; raises StepFailed("bad_answer") for anything else."""
    try:
        return record(json.loads(body), source)
    except (ValueError, RecursionError) as error:
        raise StepFailed("bad_answer", f"{source} sent no JSON: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """What is wrong, without quoting the body."""
    return error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__


def record(value: Any, source: str) -> dict[str, Any]:
    """`value` as an object; raises StepFailed("bad_answer") if it is none."""
    if not isinstance(value, dict):
        raise StepFailed("bad_answer", f"{source} answered without a record of the work")
    return value


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[dict[str, Any]]:
    """The objects in a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def first(value: Any) -> Any:
    """The first of a list, or None."""
    return value[0] if isinstance(value, list) and value else None


def line(value: Any, longest: int = MAX_NAME) -> str:
    """Text on one line that any database accepts: no NUL, control characters or lone surrogates."""
    text = " ".join(value[:MAX_RAW].split()) if isinstance(value, str) else ""
    return "".join(letter for letter in text if letter.isprintable())[:longest]


def title(value: Any) -> str:
    """A title without the publisher's markup (`<i>E. coli</i> &amp; others`)."""
    if not isinstance(value, str):
        return ""
    return line(unescaped(_MARKUP.sub("", value[:MAX_RAW])), MAX_TITLE)


def abstract(value: Any) -> str:
    """An abstract without its markup (JATS), on one line."""
    if not isinstance(value, str):
        return ""
    return line(unescaped(_TAG.sub(" ", value[:MAX_RAW])), MAX_ABSTRACT)


def names(values: Any) -> tuple[str, ...]:
    """Names of people, at most MAX_AUTHORS."""
    given = values if isinstance(values, list) else []
    return tuple(filter(None, (line(name) for name in given[:MAX_AUTHORS])))


def year(value: Any) -> int | None:
    """A year from 1000 to 2999, given as a number or at the start of a date."""
    if isinstance(value, str) and re.match(r"[12]\d{3}(?!\d)", value):
        return int(value[:4])
    plain = isinstance(value, int) and not isinstance(value, bool)
    return value if plain and 1000 <= value <= 2999 else None


def link(value: Any) -> str:
    """An http(s) URL, or empty; also if no database can hold it: no URL has controls or half characters."""
    url = value.strip() if isinstance(value, str) and len(value) <= MAX_URL else ""
    return url if url.lower().startswith(("http://", "https://")) and url.isprintable() else ""


def doi(value: Any) -> str:
    """A DOI without its resolver's URL, in lower case; empty if too long for the database column."""
    bare = _DOI_URL.sub("", line(value, 1000)).lower()
    return bare if bare.startswith("10.") and len(bare) <= 255 else ""
