"""An execution to be enqueued later: its flow, its payload, and how it is placed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from queuemgr.flows.flow import NORMAL


@dataclass(frozen=True)
class Call:
    """What a batch enqueues when it completes. Without a `key` it gets one of the batch's."""

    flow: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    priority: int = NORMAL
