"""Messages in a queue of the broker that are not what kombu and Celery take for granted."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
import zlib
from collections.abc import Iterator
from copy import deepcopy
from itertools import count
from typing import Any

MARK = "what-is-in-it-is-nobodys-business"

VALUES: tuple[Any, ...] = (
    None, 7, -1, 2**70, 1e400, True, "", "text", "x" * 2_000, "\ud800", "\0", "9999-12-31T23:59:59",
    "0001-01-01T00:00:00+23:59", [], ["text"], [1], {}, {"a": "b"},
)  # fmt: skip
"""Put in the place of each part of a message."""

MISSING = object()

_numbers = count()


NOBODYS_LEASE = "11111111-1111-4111-8111-111111111111"


def well_formed() -> dict[str, Any]:
    """As the queue sends it, for a lease that is long gone."""
    body = json.dumps(
        [[NOBODYS_LEASE], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    )
    return {
        "body": base64.b64encode(body.encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py", "task": "queuemgr.unknown_step", "id": NOBODYS_LEASE, "shadow": None, "eta": None,
            "expires": None, "group": None, "group_index": None, "retries": 0, "timelimit": [None, None],
            "root_id": None, "parent_id": None, "argsrepr": "()", "kwargsrepr": "{}", "origin": "a test",
            "ignore_result": True, "replaced_task_nesting": 0, "stamped_headers": None, "stamps": {},
        },
        "properties": {
            "correlation_id": "1", "reply_to": "1", "delivery_mode": 2, "priority": 0,
            "body_encoding": "base64", "delivery_tag": "1",
            "delivery_info": {"exchange": "", "routing_key": "prep.normal"},
        },
    }  # fmt: skip


def raw() -> Iterator[bytes]:
    """Not JSON, or JSON that is no message."""
    yield from (
        b"",
        b" ",
        b"\0",
        b"\xff\xfe",
        b"{",
        b"[",
        b"]",
        MARK.encode(),
        b'"text"',
        b"null",
        b"7",
        b"NaN",
        b"{}",
        b"[]",
    )
    yield from (b"[" * 200_000, b'{"a":' * 200_000, b"9" * 100_000, b'"' + b"x" * 3_000_000 + b'"')
    yield from (pickle.dumps({"a": 1}), gzip.compress(b"{}"), "{}".encode("utf-16"), b'{"a": "\\ud800"}')
    yield b'{"properties": {"delivery_tag": "1", "delivery_info": {}}}'
    yield b'{"__type__": "datetime", "__value__": "never"}'
    yield json.dumps(well_formed()).encode()[:-40]


def places(message: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of every part of a message."""
    for name, value in message.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from places(value, (*above, name))


def changed(path: tuple[str, ...], value: Any) -> bytes:
    """The well-formed message with another value, or none, at this path."""
    message = deepcopy(well_formed())
    inner = message
    for name in path[:-1]:
        inner = inner[name]
    if value is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(message).encode()


def bodies() -> Iterator[bytes]:
    """Well-formed but for the body, and how it is encoded and compressed."""
    texts = (
        "",
        "null",
        "7",
        "{}",
        "[]",
        "[[], {}]",
        "[[], {}, 7]",
        "[7, 7, 7]",
        "[" * 100_000,
        MARK,
        '{"args": []}',
    )
    for text in texts:
        for kind in (
            "application/json",
            "application/x-python-serialize",
            "application/x-yaml",
            "text/plain",
            "no/such",
        ):
            yield with_body(text.encode(), **{"content-type": kind})
    yield from calls()
    for encoding in ("utf-16", "rot13", "no-such", "binary", "idna", "base64", "zlib", "unicode_escape"):
        yield with_body(b"[[], {}, {}]", **{"content-encoding": encoding})
    for compression in ("application/x-gzip", "application/x-bz2", "gzip", "no-such", 7, ["gzip"], {"a": 1}):
        yield with_body(gzip.compress(b"[[], {}, {}]"), compression=compression)
    yield with_body(zlib.compress(b" " * (50 << 20), 1), compression="application/x-gzip")


def calls() -> Iterator[bytes]:
    """Of arguments and of what follows them, whose results are to be stored, which is a way of its own."""
    for value in (*VALUES, [VALUES], ["a", "b"], ["\0"], [[[]]], [{"task": MARK}]):
        for part in ("callbacks", "errbacks", "chain", "chord"):
            stored = {"ignore_result": False}
            yield with_body(json.dumps([[], {}, {part: value}]).encode(), also=stored)
            yield with_body(b"[[], {}, {}]", also={**stored, part: value})
        for body in ([value, {}, {}], [[], value, {}], [[], {}, value], [value] * 3):
            yield with_body(json.dumps(body).encode(), also=stored)


def with_body(
    body: bytes, compression: Any = None, also: dict[str, Any] | None = None, **fields: str
) -> bytes:
    """`also`: further headers."""
    message = well_formed() | {"body": base64.b64encode(body).decode()} | fields
    message["headers"] |= also or {}
    # Of its own, as every message has: else one that is acknowledged would be taken for others that are not.
    message["properties"]["delivery_tag"] = f"tag {next(_numbers)}"
    if compression is not None:
        message["headers"]["compression"] = compression
    return json.dumps(message).encode()


def control_messages() -> Iterator[bytes]:
    """For the mailbox of remote control: of its form, but for one part."""
    usual: dict[str, Any] = {"method": "ping", "arguments": {}, "destination": None, "reply_to": None}
    bodies = [usual | {name: value} for name in usual for value in VALUES]
    bodies += [usual | {"method": name, "arguments": given} for name, given in ODD_ARGUMENTS]
    for body in (*bodies, *VALUES):
        yield with_body(json.dumps(body).encode())


POISON = "tasks x://a:network@h flagged as revoked"
"""What looks like the password of a URL is a word that others use."""

ODD: tuple[Any, ...] = (
    None, 7, "x" * 100_000, [[1]], {"a": {"b": 1}}, "://:" * 25_000, POISON, ["://a:" * 50] * 1_000,
    [f"{number}" + "://a:" * 40 for number in range(1_000)], {POISON: "://:" * 60},
)  # fmt: skip
ODD_ARGUMENTS: list[tuple[str, dict[str, Any]]] = [
    (name, {"from_node": "worker@nowhere", argument: value} if name == "hello" else {argument: value})
    for name, argument in (
        ("revoke", "task_id"), ("revoke", "signal"), ("query_task", "ids"), ("hello", "from_node"),
        ("hello", "revoked"), ("conf", "with_defaults"), ("registered", "builtins"), ("active", "safe"),
        ("stats", "no_such"), ("enable_events", "x"),
    )
    for value in ODD
]  # fmt: skip


def kept_messages() -> Iterator[bytes]:
    """As Redis keeps messages until they are acknowledged, of which a worker that starts sends some again."""
    yield from raw()
    for message in (*VALUES, well_formed() | {"properties": None}, well_formed() | {"headers": 7}):
        yield json.dumps([message, "", "prep.normal"]).encode()
        yield json.dumps([well_formed(), message, message]).encode()


def malformed() -> list[bytes]:
    """All of them. Some are harmless, which is for the worker to find out."""
    everywhere = [changed(path, value) for path in places(well_formed()) for value in (*VALUES, MISSING)]
    return [*raw(), *everywhere, *bodies(), *for_later()]


def for_later() -> Iterator[bytes]:
    """Of tasks of the queue, with a time until which a worker would keep them."""
    for eta in ("2099-01-01T00:00:00", "2099-01-01T00:00:00+05:00", "9000-12-31T23:59:59.999999Z"):
        for task in ("queuemgr.unknown_step", "queuemgr.tick", "probe.run", "no.such.task"):
            yield with_body(b"[[], {}, {}]", also={"eta": eta, "task": task, "sluice_lease": "1"})
            if task != "no.such.task":
                yield with_body(b"[[], {}, {}]", also={"eta": eta, "task": task})
