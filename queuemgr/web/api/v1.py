"""Version 1 of the API: its description and its routes."""

from __future__ import annotations

from queuemgr.web.api import app, batches, bulk, enqueue, execution_actions, executions, limits, queues, stats

DESCRIPTION = """
Enqueue, inspect and manage the executions of a fleet.

Authenticate with `Authorization: Bearer TOKEN`. Errors are problems (RFC 9457). A request that
changes something may carry an `Idempotency-Key`: repeated, it takes effect once. See docs/api.md
for examples.
"""

MODULES = (executions, enqueue, execution_actions, batches, bulk, limits, queues, stats)

api = app.make(DESCRIPTION.strip(), dict.fromkeys(module.router for module in MODULES))
