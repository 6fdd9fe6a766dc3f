"""What follows a commit: an error of it is not the caller's, whose change is stored."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from django.db import InterfaceError, OperationalError

from queuemgr.base import transaction
from queuemgr.base.redaction import describe_error

logger = logging.getLogger(__name__)


def after_commit(act: Callable[[], object]) -> None:
    """Call this once the caller's transaction has committed; now, if it is in none.

    An error is logged and goes no further: the caller would take it for a failure of what it stored, and
    Django would leave out what else waits for the commit. For what is made good later, as a decision is by
    the tick.
    """
    transaction.on_commit(partial(_logging_errors, act), robust=True)


def _logging_errors(act: Callable[[], object]) -> None:
    try:
        act()
    except (OperationalError, InterfaceError) as error:  # the database is away or busy
        logger.warning("%s (%s)", _MADE_GOOD, describe_error(error))
    except Exception:
        logger.exception(_MADE_GOOD)


_MADE_GOOD = "a change is stored, but what follows it failed; the next decision or tick makes up for it"
