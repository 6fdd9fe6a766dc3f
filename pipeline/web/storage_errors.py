"""Pages while the file storage does not answer: 503 with a sentence, never 500."""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from pipeline.storage import FileMissing, StorageFailed

logger = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 30

Respond = Callable[[HttpRequest], HttpResponse]


class StorageErrors:
    """Middleware that answers for a view which the storage has failed."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._respond(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, FileMissing):
            return HttpResponse("This file is no longer stored.", status=404, content_type="text/plain")
        if not isinstance(error, StorageFailed):
            return None
        logger.error("%s: %s", request.path, error, exc_info=error)
        again = f"Try again in {RETRY_AFTER_SECONDS} seconds."
        text = f"The file storage does not answer; nothing is lost. {again}"
        response = HttpResponse(text, status=503, content_type="text/plain; charset=utf-8")
        response["Retry-After"] = str(RETRY_AFTER_SECONDS)
        return response
