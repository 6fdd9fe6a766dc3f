"""Version 1 of the API: which routes there are."""

from __future__ import annotations

from ninja import NinjaAPI

from queuemgr.web.api import (
    app,
    batches,
    bulk,
    enqueue,
    execution_actions,
    executions,
    limits,
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
    part.router
    for part in (executions, enqueue, execution_actions, batches, bulk, limits, queues, stats)
)
"""Each router once: routes of one path that differ in method must be on the same."""


def add_routes(api: NinjaAPI) -> None:
    for part in PARTS:
        api.add_router("", part)


api = app.make(ABOUT.strip(), add_routes)
