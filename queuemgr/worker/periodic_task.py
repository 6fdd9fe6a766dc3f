"""The Celery task base of periodic jobs: no database or result backend that is away ends their worker.

With `-P solo` the pool is the worker's main loop. Celery stores results there without a guard: what the
backend raises ends the process. So Celery stores none, and the task does, as well as it can.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import Task, states

from queuemgr.base import sql
from queuemgr.base.db_connection import close_connections, end_what_was_left, held
from queuemgr.base.redaction import describe_error
from queuemgr.lifecycle.publish import NO_TIME_LIMIT

logger = logging.getLogger(__name__)


class PeriodicTask(Task):  # type: ignore[type-arg]  # not generic at run time
    """`@shared_task(base=PeriodicTask, name=…)`. It sends no events, so that Flower counts steps only."""

    abstract = True
    only_of_the_queue = True
    send_events = False
    ignore_result = True
    time_limit = soft_time_limit = NO_TIME_LIMIT

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the job. A database that does not answer is a line in the log: beat sends the next one. A
        transaction it leaves open ends here: the thread's next job needs the connection."""
        try:
            result = self._run(*args, **kwargs)
        except Exception as error:
            if not sql.is_passing(error):
                self._store(error, states.FAILURE)
                raise
            logger.warning("%s: %s", self.name, sql.trouble(error).splitlines()[0])
            close_connections()
            return None
        self._store(result, states.SUCCESS)
        return result

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        before = held()
        try:
            return self.run(*args, **kwargs)
        finally:
            if end_what_was_left(before):
                logger.error("%s: it left a transaction open, whose writes were rolled back", self.name)

    def _store(self, result: Any, state: str) -> None:
        """Keep the result for the admin, if the result backend takes it."""
        request = self.request
        if not request.id:  # called as a function
            return
        try:
            self.backend.store_result(request.id, result, state, request=request)
        except Exception as error:
            logger.warning("%s: its result could not be stored (%s)", self.name, _first_line(error))


def _first_line(error: Exception) -> str:
    return describe_error(error).splitlines()[0]
