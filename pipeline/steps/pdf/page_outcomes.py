"""What can come of one page, by name: a text, a blank, or one of seven errors.

The names are the contract of `manage.py ocr`; each error also knows the queue's word for it, so
that a whole document that failed is retried by the policy of what went wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from queuemgr import StepFailed


class PageFailed(Exception):
    """Base of the seven. `kind` is a kind of error the flow declares, `retryable` says
    whether another try may end better, `retry_after` the wait in seconds a server asked for."""

    name = ""
    usual_kind = "unexpected"
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        retryable: bool | None = None,
        retry_after: float | None = None,
        http_status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind or self.usual_kind
        self.retryable = type(self).retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.http_status = http_status


class NetworkError(PageFailed):
    """No connection, or one that broke."""

    name = "NetworkError"
    usual_kind, retryable = "network", True


class Timeout(PageFailed):
    """No complete answer in the time allowed."""

    name = "Timeout"
    usual_kind, retryable = "timeout", True


class RateLimit(PageFailed):
    """The other side asks to slow down: 429, or a body that says so."""

    name = "RateLimit"
    usual_kind, retryable = "rate_limited", True


class HttpError(PageFailed):
    """An error answer; retryable when it is the server's fault."""

    name = "HttpError"
    usual_kind = "http_error"


class ParseError(PageFailed):
    """An answer that is no page: not the form, empty, cut off, repeating itself, refused."""

    name = "ParseError"
    usual_kind = "bad_answer"


class PdfError(PageFailed):
    """The page could not be drawn."""

    name = "PdfError"
    usual_kind = "damaged"


class EncodeError(PageFailed):
    """The page was drawn, but could not be made a picture to send."""

    name = "EncodeError"
    usual_kind = "damaged"


OF_KIND: dict[str, tuple[type[PageFailed], bool]] = {
    "network": (NetworkError, True),
    "timeout": (Timeout, True),
    "rate_limited": (RateLimit, True),
    "server_error": (HttpError, True),
    "http_error": (HttpError, False),
    "quota": (HttpError, False),
    "bad_answer": (ParseError, True),
    "bad_request": (HttpError, False),
    "too_long": (HttpError, False),
    "withheld": (HttpError, False),
}
"""The error and whether it is retried, by the kind the chat client gives a failure."""


def page_failed(failure: StepFailed) -> PageFailed:
    """The failure of one chat request as the failure of its page."""
    sort, retryable = OF_KIND.get(failure.kind, (ParseError, False))
    if sort is HttpError and failure.http_status is None:
        sort = ParseError  # a whole answer that says no: withheld by a filter, or refused
    return sort(
        failure.message,
        kind=failure.kind,
        retryable=retryable,
        retry_after=failure.retry_after,
        http_status=failure.http_status,
    )


@dataclass(frozen=True)
class PageOutcome:
    """The final result of one page, numbered from 1.

    `attempts` counts what was asked of an engine or endpoint, 0 for a page that needed nothing.
    `blank` pages have no ink and were not sent. `error` is None for a page that was read.
    """

    page: int
    attempts: int
    text: str = ""
    blank: bool = False
    error: PageFailed | None = None

    def as_line(self) -> dict[str, Any]:
        """As `manage.py ocr` prints it."""
        if self.error is None:
            line: dict[str, Any] = {
                "page": self.page, "status": "ok", "attempts": self.attempts, "text": self.text,
            }  # fmt: skip
            return line | {"blank": True} if self.blank else line
        line = {
            "page": self.page,
            "status": "error",
            "attempts": self.attempts,
            "error_kind": self.error.name,
            "error_message": self.error.message,
        }
        status = self.error.http_status
        return line if status is None else line | {"http_status": status}
