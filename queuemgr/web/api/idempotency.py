"""A request repeated with the same `Idempotency-Key` takes effect once, with the same response.

The key's row is inserted in the transaction of the effect: of two concurrent requests the second waits
until the first commits, finds its row and replays its response. Refused requests store no key, since
nothing took effect; the key can be used again.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any, overload

from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse
from ninja.operation import Operation
from ninja.responses import Response, Status
from ninja.utils import contribute_operation_callback

from queuemgr.base import transaction
from queuemgr.base.errors import QueueFull
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import ApiToken, IdempotencyRecord
from queuemgr.web.api.auth import REASON, caller_of
from queuemgr.web.api.problems import Problem

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
MAX_KEY = 200
View = Callable[..., Any]


def _header(name: str, description: str, **text: Any) -> dict[str, Any]:
    schema = {"type": "string", **text}
    return {"in": "header", "name": name, "required": False, "description": description, "schema": schema}


PARAMETERS = [
    _header(
        HEADER, "The same key with the same request takes effect once; kept for 24 hours.",
        minLength=1, maxLength=MAX_KEY, pattern="^[!-~]+$",
    ),
    _header(
        REASON, "Reason for the audit log, if the body has none.",
        maxLength=200, pattern="^([!-~]([ -~]*[!-~])?)?$",
    ),
]  # fmt: skip


@overload
def idempotent(view: View) -> View: ...
@overload
def idempotent(*, before: View) -> Callable[[View], View]: ...
def idempotent(view: View | None = None, *, before: View | None = None) -> Any:
    """Decorator for a view that changes something, to be placed below the router's.

    `before` is called with the same arguments outside of the transaction: for what takes its time.
    """

    def decorated(view: View) -> View:
        contribute_operation_callback(view, functools.partial(_wrap, before))
        return view

    return decorated if view is None else decorated(view)


def _wrap(before: View | None, operation: Operation) -> None:
    operation.openapi_extra = {**(operation.openapi_extra or {}), "parameters": PARAMETERS}
    inner = operation.view_func

    @functools.wraps(inner)
    def keyed(request: HttpRequest, **kwargs: Any) -> Any:
        if before is not None:
            before(request, **kwargs)
        key = request.headers.get(HEADER)
        if key is None:
            return inner(request, **kwargs)
        return _once(_validate(key), request, lambda: _response(operation, inner(request, **kwargs)))

    operation.view_func = keyed


def _response(operation: Operation, result: Any) -> Status[Any]:
    """The result with its status, as JSON values."""
    status = next(iter(operation.response_models))
    if isinstance(result, Status):
        status, result = result.status_code, result.value
    return Status(status, result.model_dump(mode="json"))


def _validate(key: str) -> str:
    if not 0 < len(key) <= MAX_KEY or not all("!" <= c <= "~" for c in key):
        raise Problem("invalid", f"{HEADER} is 1 to {MAX_KEY} visible ASCII characters")
    return key


def _once(key: str, request: HttpRequest, act: Callable[[], Status[Any]]) -> Any:
    token = caller_of(request).token
    if token is None:
        raise Problem("invalid", f"{HEADER} needs a token: responses are stored by token")
    digest, full = _digest_of(request), None
    try:
        with transaction.atomic():
            row = IdempotencyRecord.objects.create(
                token=token, key=key, request_digest=digest, status=0, body={}, at=database_now()
            )
            try:
                result = act()
            except QueueFull as error:
                full = error  # what was enqueued before stays, and the key can be used again
                row.delete()
            else:
                row.status, row.body = result.status_code, result.value
                row.save()
    except IntegrityError:
        return _replay(token, key, digest)
    if full:
        raise full
    return Response(result.value, status=result.status_code)


def _replay(token: ApiToken, key: str, digest: str) -> HttpResponse:
    """The stored response; raises `Problem` if the integrity error was of another row than the key's."""
    record = IdempotencyRecord.objects.filter(token=token, key=key).first()
    if record is None:
        raise Problem("conflict", f"a concurrent request used this {HEADER}: try again")
    if record.request_digest != digest:
        raise Problem("key-reused", f"another request used this {HEADER}: use a new one")
    return Response(record.body, status=record.status, headers={REPLAYED: "true"})


def _digest_of(request: HttpRequest) -> str:
    head = f"{request.method} {request.get_full_path()}\n{request.headers.get(REASON, '')}\n"
    return hashlib.sha256(head.encode("utf-8", "surrogateescape") + request.body).hexdigest()
