"""Whether a message of the broker has the form that kombu and Celery take for granted. Rules only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import MAXYEAR, MINYEAR
from typing import Any

from celery.utils.time import maybe_iso8601
from kombu.compression import get_encoder
from kombu.transport.virtual import Channel

Types = Mapping[str, type | tuple[type, ...]]

ENVELOPE: Types = {
    "properties": dict,
    "headers": (dict, type(None)),
    "body": (str, type(None)),
    "content-type": (str, type(None)),
    "content-encoding": (str, type(None)),
}
"""What a message in Redis consists of, and of what types."""

PROPERTIES: Types = {"delivery_tag": str, "delivery_info": dict, "body_encoding": (str, type(None))}

TEXT = (str, type(None))
HEADERS: Types = {
    "id": str, "task": str, "root_id": TEXT, "parent_id": TEXT, "group": TEXT, "shadow": TEXT, "origin": TEXT,
    "lang": TEXT, "eta": TEXT, "expires": TEXT, "argsrepr": TEXT, "kwargsrepr": TEXT, "compression": TEXT,
    "timelimit": (list, tuple, type(None)), "retries": (int, type(None)), "stamps": (dict, type(None)),
    "stamped_headers": (list, type(None)), "group_index": (int, type(None)),
}  # fmt: skip
"""Headers of a task's message that Celery takes to be of these types."""

LONGEST_ID = 255


class Unreadable(dict[str, Any]):
    """Stands for a message that is no JSON."""


def problem_of(message: Any) -> str:
    """Why a message as it is in Redis cannot be read; "" if it can."""
    if isinstance(message, Unreadable):
        return "it is no JSON"
    if not isinstance(message, dict):
        return "it is no JSON object"
    if wrong := _wrong_type(message, ENVELOPE):
        return f"its {wrong} is of the wrong type"
    properties = message["properties"]
    if wrong := _wrong_type(properties, PROPERTIES):
        return f"its {wrong} is of the wrong type"
    if wrong := _wrong_type(properties["delivery_info"], {"exchange": str, "routing_key": str}):
        return f"its {wrong} is of the wrong type"
    if not _is_text({**message, "body": None}):
        return "it has half a character"
    return _problem_of_body(message.get("body"), properties.get("body_encoding"))


def _is_text(envelope: Mapping[str, Any]) -> bool:
    """Whether its texts can be sent to Redis again: JSON may name half of a character outside of the BMP."""
    try:
        json.dumps(envelope, ensure_ascii=False).encode()
    except ValueError:
        return False
    return True


def is_kept_message(kept: Any) -> bool:
    """Whether this is a message as Redis keeps it until it is acknowledged: with exchange and routing key."""
    if not isinstance(kept, list) or len(kept) != 3:
        return False
    message, exchange, routing_key = kept
    return problem_of(message) == "" and isinstance(exchange, str) and isinstance(routing_key, str)


def _problem_of_body(body: str | None, encoding: str | None) -> str:
    if not encoding or encoding.lower() == "utf-8" or not body:
        return ""
    if encoding not in Channel.codecs:
        return "its body has an unknown encoding"
    try:
        Channel.codecs[encoding].decode(body)
    except ValueError:
        return "its body cannot be decoded"
    return ""


def problem_of_headers(headers: Any) -> str:
    """Why the headers of a task's message cannot be used; "" if they can, or it is of another form."""
    if not isinstance(headers, dict):
        return "its headers are no object"
    if "task" not in headers:
        return ""
    if "id" not in headers:
        return "its header id is missing"
    if wrong := _wrong_type(headers, {name: kind for name, kind in HEADERS.items() if name in headers}):
        return f"its header {wrong} is of the wrong type"
    if len(headers["id"]) > LONGEST_ID:
        return "its header id is too long"
    for name in ("eta", "expires"):
        if headers.get(name) and not _is_time(headers[name]):
            return f"its header {name} is no time"
    return "" if _are_limits(headers.get("timelimit")) else "its header timelimit is no pair of seconds"


def problem_of_compression(headers: Mapping[str, Any] | None, sent: str | None) -> str:
    """A body may expand to any size, so it is taken only compressed as this application `sent` it."""
    compression = (headers or {}).get("compression")
    if not compression or (sent and compression == _content_type(sent)):
        return ""
    return "its body is compressed in a way that this application does not use"


def _content_type(compression: str) -> str:
    """The name that kombu writes into the header for this setting."""
    encoder: Any = get_encoder(compression)
    return str(encoder[1])


def _is_time(text: str) -> bool:
    """Whether Celery can read this time, and find out how far it is. What it cannot, it logs whole."""
    try:
        read = maybe_iso8601(text)
        return read is not None and MINYEAR < read.year < MAXYEAR
    except (ValueError, OverflowError, TypeError):
        return False


def _are_limits(limits: Any) -> bool:
    if not limits:
        return True
    return len(limits) == 2 and all(one is None or type(one) in (int, float) for one in limits)


def _wrong_type(values: Mapping[str, Any], types: Types) -> str:
    """The first of these names whose value is of another type, or ""."""
    for name, expected in types.items():
        value = values.get(name)
        if not isinstance(value, expected) or isinstance(value, bool):
            return name
    return ""
