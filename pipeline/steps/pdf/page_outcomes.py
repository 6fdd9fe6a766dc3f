"""The outcome of one page: a text, blank, or one of seven errors.

The error names are the contract of `manage.py ocr`; each error also has an error kind of the flow, so
that the retry policy of the kind applies if the whole document fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from queuemgr import StepFailed


class PageFailed(Exception):
    """Base of the seven. `kind`: an error kind of the flow; `retryable`: whether a retry may help;
    `retry_after`: the wait in seconds a server asked for."""

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
    """No connection, or it broke."""

    name = "NetworkError"
    usual_kind, retryable = "network", True


class Timeout(PageFailed):
    """No complete answer in the time allowed."""

    name = "Timeout"
    usual_kind, retryable = "timeout", True


class RateLimit(PageFailed):
    """The server asks to slow down: status 429, or a body that says so."""

    name = "RateLimit"
    usual_kind, retryable = "rate_limited", True


class HttpError(PageFailed):
    """An error response; retryable if it is the server's fault."""

    name = "HttpError"
    usual_kind = "http_error"


class ParseError(PageFailed):
    """An unusable answer: wrong format, empty, cut off, repetitive, refused."""

    name = "ParseError"
    usual_kind = "bad_answer"


class PdfError(PageFailed):
    """The page could not be rendered."""

    name = "PdfError"
    usual_kind = "damaged"


class EncodeError(PageFailed):
    """The page was rendered, but could not be encoded as a picture."""

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
    "content_filtered": (HttpError, False),
}
"""The page error and whether it is retryable, by the error kind of a chat request."""


TIMEOUT_STATUSES = frozenset({408, 504})
"""Statuses of a server, or of a proxy before it, that ran out of time."""


def page_failed(failure: StepFailed) -> PageFailed:
    """The page error for a failed chat request."""
    error_type, retryable = OF_KIND.get(failure.kind, (ParseError, False))
    if failure.http_status in TIMEOUT_STATUSES:
        error_type, retryable = Timeout, True
    if error_type is HttpError and failure.http_status is None:
        error_type = ParseError  # a complete answer that refuses, or that a filter blocked
    return error_type(
        failure.message,
        kind=failure.kind,
        retryable=retryable,
        retry_after=failure.retry_after,
        http_status=failure.http_status,
    )


@dataclass(frozen=True)
class PageOutcome:
    """The final result of one page, numbered from 1.

    `attempts`: requests to an engine or endpoint, 0 for a page that needed none; a page that could not be
    drawn was attempted once. `blank` pages have no ink and were not sent. `error` is None for a page that
    was read.
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
