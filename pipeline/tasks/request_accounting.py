"""Paid requests of a step: charged before they are sent, and recorded with the document afterwards."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.db import Error as DatabaseError
from django.db.models import F

from pipeline.models import Document
from pipeline.tasks.documents import store
from pipeline.tasks.spending import Spending
from queuemgr import Failed, Result, Snoozed, Work, as_result

logger = logging.getLogger(__name__)

CHARGE_FAILED = Snoozed(15.0, "the database did not accept the charge for a request")
"""Retry in 15 seconds when a request could not be charged."""


class ChargeFailed(Exception):
    """The database did not accept the charge for a request, so the request was not sent."""


def charge_request(work: Work) -> None:
    """Charge one request, in any thread; it is sent only after that.

    Raises `ChargeFailed`, `LeaseLost`, and `StepFailed` when no reserved request is left.
    """
    try:
        work.record_requests()
    except DatabaseError as error:
        raise ChargeFailed from error


def failed_result(error: Exception, work: Work, cost: int | None) -> Result:
    """The result for an exception out of a step; a failure costs what was charged, not the reservation."""
    result = as_result(error, work.signal)
    return replace(result, cost=cost) if isinstance(result, Failed) else result


@contextmanager
def recorded_on_failure(document: Document, spending: Spending) -> Iterator[None]:
    """Add the usage to the document if the block fails, since it was paid for.

    The lease does not guard this: it is true whoever holds the lease now.
    """
    try:
        yield
    except Exception:  # raised again below
        try:
            if spending.usage.requests:
                store(document.pk, usage_columns(spending))
        except DatabaseError:
            logger.warning("usage for %s could not be recorded", document.key)
        raise


def usage_columns(spending: Spending) -> dict[str, Any]:
    """The columns that what was used and spent is added to."""
    usage = spending.usage
    return {
        "requests": F("requests") + usage.requests,
        "prompt_tokens": F("prompt_tokens") + usage.prompt_tokens,
        "completion_tokens": F("completion_tokens") + usage.completion_tokens,
        "cached_tokens": F("cached_tokens") + usage.cached_tokens,
        "micro_usd": F("micro_usd") + spending.micro_usd,
        "priced_requests": F("priced_requests") + spending.priced_requests,
    }
