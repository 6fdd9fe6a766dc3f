"""Requests a step pays for: booked before they are sent, and noted with the document afterwards."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.db import Error as DatabaseAway
from django.db.models import F

from pipeline.models import Document
from pipeline.steps.llm.client import Tally
from pipeline.tasks.documents import store
from queuemgr import Failed, Result, Snoozed, Work, as_result

logger = logging.getLogger(__name__)

UNBOOKED = Snoozed(15.0, "the database did not take the booking of a request")
"""Seconds until a request is tried again that the database did not let us book."""


class NotBooked(Exception):
    """The database did not take the booking of a request, so the request was not sent."""


def book(work: Work) -> None:
    """Book one request, in whatever thread; with none booked none is sent.

    Raises `NotBooked`, `LeaseLost`, and `StepFailed` when none of those reserved is left.
    """
    try:
        work.spend()
    except DatabaseAway as error:
        raise NotBooked from error


def failed(error: Exception, work: Work, cost: int | None) -> Result:
    """What an exception out of a step means; a failure costs what was booked, not what was reserved."""
    result = as_result(error, work.signal)
    return replace(result, cost=cost) if isinstance(result, Failed) else result


@contextmanager
def counted(document: Document, tally: Tally) -> Iterator[None]:
    """Add what was asked and used to the document when the block fails: it was paid for. Not guarded
    by the lease, since it is a fact whoever holds that now."""
    try:
        yield
    except Exception:
        try:
            if tally.requests:
                store(document.pk, used(tally))
        except DatabaseAway:
            logger.warning("tokens used for %s could not be noted", document.key)
        raise


def used(tally: Tally) -> dict[str, Any]:
    """Columns that grow by what was asked and used."""
    return {
        "requests": F("requests") + tally.requests,
        "prompt_tokens": F("prompt_tokens") + tally.prompt_tokens,
        "completion_tokens": F("completion_tokens") + tally.completion_tokens,
    }
