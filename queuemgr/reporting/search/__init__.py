"""One search over all that has a name: keys, limits, workers, batches, errors, and what applications add.

Each kind of thing is found by its own provider, for whoever may see the list of it, and within a bounded
time. No payload, context or result is searched, so that the number of hits tells nothing of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from queuemgr.base import application_call
from queuemgr.base.bounded_reading import TookTooLong, bounded
from queuemgr.base.misconduct import Misconduct
from queuemgr.base.redaction import describe_error
from queuemgr.base.safe_text import is_storable
from queuemgr.reporting.search import executions, named_things
from queuemgr.reporting.search.found import Found, Group, Kind, kinds, rank

logger = logging.getLogger(__name__)

LONGEST_TEXT = 200
AT_MOST = 8
"""Hits shown of each kind."""

SECONDS = 0.8
"""How long one statement of a provider may take."""

OURS = (executions, named_things)
"""Modules that register the queue's own kinds as they are imported."""


def asked(text: str) -> str:
    """What is searched for this: without blanks around it, and not longer than any name; empty: nothing."""
    short = text[: LONGEST_TEXT * 2].strip()[:LONGEST_TEXT]
    return short if is_storable(short) else ""


def search(text: str, may: Callable[[str], bool]) -> list[Group]:
    """What matches, by kind; first the kind with the best match. `may` says which permissions the asker
    has."""
    wanted = asked(text)
    if not wanted:
        return []
    groups = [_group(kind, wanted) for kind in kinds() if may(kind.permission)]
    return sorted(filter(None, groups), key=lambda group: group.best)


def _group(kind: Kind, text: str) -> Group | None:
    try:
        with bounded(SECONDS):
            found = application_call.call(kind.provider, text, AT_MOST, take=_taken)
    except TookTooLong:
        return Group(kind.title, [], problem=f"There are too many to read in {SECONDS:g} s.")
    except (Exception, SystemExit) as error:  # of an application's code
        if isinstance(error, Misconduct):
            logger.warning("the search of %s %s", kind.title, error)
        else:
            logger.warning("the search of %s failed", kind.title, exc_info=error)
        return Group(kind.title, [], problem=f"The search failed: {describe_error(error)}")
    if not found:
        return None
    best_first = sorted(found, key=lambda each: rank(text, each))
    return Group(kind.title, best_first[:AT_MOST], len(found) > AT_MOST, rank(text, best_first[0]))


def _taken(found: Iterable[Found]) -> list[Found]:
    """A few more than are shown: the best of them are."""
    return list(_checked(islice(found, AT_MOST * 5)))


def _checked(found: Iterable[object]) -> Iterator[Found]:
    for each in found:
        if not isinstance(each, Found):
            raise Misconduct(f"returned a {type(each).__name__} where a Found is due")
        if not all(isinstance(text, str) for text in (each.text, each.detail, each.page)):
            raise Misconduct("returned a Found of which text, detail or page is no text")
        yield each
