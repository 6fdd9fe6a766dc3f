"""What a page says when the scheduler lock stayed busy: who holds it, and to try again."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from queuemgr.base.scheduler_lock import SchedulerLockBusy

RETRY_AFTER_SECONDS = 10


class BusyLock:
    """Middleware; nothing was changed, since the transaction was rolled back."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        return answer(error) if isinstance(error, SchedulerLockBusy) else None


def answer(error: SchedulerLockBusy) -> HttpResponse:
    text = f"Nothing was changed: {error}. Try again; manage.py doctor names a session that keeps it."
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return HttpResponse(text, status=503, content_type="text/plain; charset=utf-8", headers=headers)
