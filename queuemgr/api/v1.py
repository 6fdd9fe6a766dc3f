"""Version 1 of the API: which routes there are."""

from __future__ import annotations

from ninja import NinjaAPI

from queuemgr.api import (
    acting,
    batches,
    bulk,
    enqueueing,
    executions,
    limits,
    openapi,
    queues,
    stats,
)

ABOUT = """
The work of a Sluicegate fleet: enqueue, follow, explain, steer.

Say who you are with `Authorization: Bearer TOKEN`. Errors are problems (RFC 9457). A request that
changes something may carry an `Idempotency-Key`; sent again it takes effect once. docs/api.md has
examples of all of it.
"""


PARTS = dict.fromkeys(
    part.router for part in (executions, enqueueing, acting, batches, bulk, limits, queues, stats)
)
"""Each router once: routes of one path that differ in method must be on the same."""


def add_routes(api: NinjaAPI) -> None:
    for part in PARTS:
        api.add_router("", part)


api = openapi.make(ABOUT.strip(), add_routes)
