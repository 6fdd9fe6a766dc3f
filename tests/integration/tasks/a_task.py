"""A task of two parameters, declared with the options of a test."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from queuemgr import queued


@dataclass
class Receipt:
    host: str
    at: dt.datetime


def declare(**options: Any) -> Any:
    @queued(name="shop.send", **options)
    def send(host: str, count: int = 1) -> Receipt:
        return Receipt(host * count, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))

    return send
