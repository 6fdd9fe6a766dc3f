"""The error kind of a failed request, from httpx's exceptions and HTTP statuses."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx

from pipeline.steps.http.shown import shown
from queuemgr import StepFailed
from queuemgr.steptools.retry_after import http_date, wait_in

Cause = httpx.Response | httpx.HTTPError | httpx.InvalidURL | TimeoutError


@contextmanager
def step_failures(url: str) -> Iterator[None]:
    """Convert what httpx or an `asyncio.timeout` raises inside the block to StepFailed."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        raise failed(url, error) from error


def failed(url: httpx.URL | str, cause: Cause) -> StepFailed:
    """The StepFailed for an unsuccessful response, or for an exception instead of one."""
    match cause:
        case httpx.Response():
            return _refused(url, cause)
        case httpx.InvalidURL():
            return StepFailed("refused_address", f"not a URL that can be fetched: {cause}")
        case httpx.UnsupportedProtocol():
            return StepFailed("refused_address", f"only http and https are fetched: {shown(str(url))}")
        case TimeoutError():
            return StepFailed("timeout", f"{shown(str(url))} exceeded the total time allowed")
        case httpx.TimeoutException():
            return StepFailed("timeout", f"{shown(str(url))} did not answer: {_name(cause)}")
        case httpx.DecodingError():
            return StepFailed("bad_answer", f"{shown(str(url))} sent a damaged body: {cause}")
        case _ if _is_certificate(cause):
            return StepFailed("refused_address", f"{shown(str(url))} has no valid certificate: {cause}")
        case httpx.RemoteProtocolError() | httpx.ReadError():
            return StepFailed("network", f"{shown(str(url))} was cut off: {cause or _name(cause)}")
        case _:
            return StepFailed("network", f"{shown(str(url))}: {cause or _name(cause)}")


def kind_of_status(status: int) -> str:
    """The error kind of an unsuccessful HTTP status."""
    match status:
        case 404 | 410:
            return "not_found"
        case 429:
            return "rate_limited"
        case 408 | 425:
            return "server_error"
        case _:
            return "server_error" if status >= 500 else "http_error"


def retry_after_of(response: httpx.Response) -> float | None:
    """Seconds the response asks to wait; of several Retry-After the longest.

    Dates are relative to the server's own clock if it sends one: ours may differ.
    """
    now = http_date(response.headers.get("date", "")) or datetime.now(UTC)
    several = response.headers.get_list("retry-after") or [""]
    waits = [wait_in({**response.headers, "retry-after": value}, now) for value in several]
    return max((wait for wait in waits if wait is not None), default=None)


def _refused(url: httpx.URL | str, response: httpx.Response) -> StepFailed:
    kind = kind_of_status(response.status_code)
    waits = kind in ("rate_limited", "server_error")
    return StepFailed(
        kind,
        f"{shown(str(url))} answered {response.status_code} {response.reason_phrase}".rstrip(),
        retry_after=retry_after_of(response) if waits else None,
        http_status=response.status_code,
    )


def _name(cause: object) -> str:
    return type(cause).__name__


def _is_certificate(error: BaseException) -> bool:
    """Whether the cause is a failed certificate check, which fails the same way each time."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
