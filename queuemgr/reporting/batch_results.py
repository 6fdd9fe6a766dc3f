"""The results of a batch's members, in the order they were given, each once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any

from queuemgr.models import FINAL, UNBOUNDED, Batch
from queuemgr.reporting.export import CHUNK, flow_data


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a member: `seq` is its number from 0; `item` is the data its flow has of it."""

    seq: int
    key: str
    state: str
    error_kind: str
    error: str
    finished: datetime | None
    item: dict[str, Any]


def results(batch: Batch, after: int = -1, limit: int | None = None) -> Iterator[Result]:
    """The members after number `after`, in order, up to the first that has not ended.

    Called again with the number of the last result, it repeats none and misses none. A chunk is read at a
    time, so memory is constant and no transaction stays open.
    """
    left = limit
    while left is None or left > 0:
        later = batch.executions.filter(batch_seq__gt=after).defer(*UNBOUNDED)
        some = later.order_by("batch_seq")[: CHUNK if left is None else min(left, CHUNK)]
        ended = list(takewhile(lambda member: member.state in FINAL, some))
        items = flow_data(batch.flow, [member.key for member in ended])
        for member in ended:
            yield Result(
                seq=member.batch_seq or 0,
                key=member.key,
                state=member.state,
                error_kind=member.error_kind,
                error=member.error_message,
                finished=member.finished_at,
                item=dict(items.get(member.key, {})),
            )
        if len(ended) < CHUNK:
            return
        after, left = ended[-1].batch_seq or 0, None if left is None else left - len(ended)
