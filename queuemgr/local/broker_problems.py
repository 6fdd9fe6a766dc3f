"""What is wrong between this process and its broker, in the broker's own words, with the remedy.

A broker that answers may still take no message: a read-only replica, one that is full, a user who may not
write. So one message is sent and taken, on a queue of its own.
"""

from __future__ import annotations

import re
import time
from typing import Any
from uuid import uuid4

from celery import current_app
from kombu import Queue

from queuemgr.base.redaction import without_secrets
from queuemgr.base.setting_names import as_named_here
from queuemgr.base.unreachable import Problem

ANSWER_SECONDS = 3
"""How long the broker may take to answer, and how long one message may take through it."""

UNSET = "or unset BROKER_URL for a private one"
START = f"start it, correct BROKER_URL, {UNSET}"
START_TLS = f"start it, write redis:// if it has no TLS, correct BROKER_URL, {UNSET}"
RIGHT = f"write redis://HOST:6379/0, {UNSET}"


def broker_problem() -> Problem | None:
    """Why no work reaches a worker through the configured broker; None if a message passes."""
    problem = _problem()
    return problem and Problem(as_named_here(problem.what), as_named_here(problem.remedy))


def _problem() -> Problem | None:
    try:
        link = current_app.connection_for_write()
    except KeyError as error:
        return Problem(f"BROKER_URL cannot be used ({error.args[0]!s})", RIGHT)
    if link.transport.driver_type == "memory":
        return Problem(f"the broker {link.as_uri()} passes messages within one process only", RIGHT)
    does = "does not answer"
    try:
        with link:
            link.ensure_connection(max_retries=1, timeout=ANSWER_SECONDS)
            does = "passes no messages"
            _pass_a_message(link)
    except Exception as error:  # each transport has its own
        words = _words(error, link.password)
        remedy = _remedy(words, START_TLS if link.as_uri().startswith("rediss") else START)
        return Problem(f"the broker {link.as_uri()} {does} ({words})", remedy)
    return None


class MessageLost(Exception):
    """A message that was sent did not come."""


def _pass_a_message(link: Any) -> None:
    """Send a message to a queue of our own, and take it; the queue is deleted."""
    name = f"sluicegate-doctor-{uuid4().hex}"
    queue = Queue(name, exchange="", routing_key=name, durable=False, exclusive=True, auto_delete=True)
    with link.channel() as channel:
        bound = queue(channel)
        bound.queue_declare()
        try:
            link.Producer(channel).publish("doctor", exchange="", routing_key=name, retry=False)
            _take(bound)
        finally:
            bound.delete()


def _take(queue: Any) -> None:
    until = time.monotonic() + ANSWER_SECONDS
    while queue.get(no_ack=True) is None:
        if time.monotonic() > until:
            raise MessageLost(f"a message did not come within {ANSWER_SECONDS} s")
        time.sleep(0.01)


def _words(error: Exception, password: str | None) -> str:
    """What the broker or its driver said, in one line without the password."""
    text = without_secrets(str(error)).replace(password or "\0", "***").strip()
    return text.splitlines()[0][:200] if text else type(error).__name__


def _remedy(words: str, otherwise: str) -> str:
    known = (remedy for pattern, remedy in REMEDIES.items() if re.search(pattern, words, re.I))
    return next(known, otherwise)


REMEDIES = {
    "NOPERM|no permissions|ACCESS_REFUSED - (access|operation)": (
        "let its user do everything: ACL SETUSER … +@all ~* &*, or correct the user in BROKER_URL"
    ),
    "WRONGPASS|username-password|NOAUTH|Authentication|ACCESS_REFUSED": (
        f"correct the user or the password in BROKER_URL, {UNSET}"
    ),
    "DB index|invalid DB|database index": "correct the number of the database at the end of BROKER_URL",
    r"\bSSL\b|\bTLS\b|certificate": "write redis:// for a server without TLS, or correct its certificates",
    "read.?only": "name the primary server in BROKER_URL, not its replica",
    r"\bOOM\b|maxmemory": "raise maxmemory of the broker, or make room in it",
    "protocol|closed by server|closed the connection|unexpected|did not understand": (
        "correct host and port in BROKER_URL: another kind of server listens there, or it is starting"
    ),
    "resolv|Name or service|name resolution": "correct the host in BROKER_URL",
}
"""What to do when a broker or its driver says this (a pattern); the first that fits counts."""
