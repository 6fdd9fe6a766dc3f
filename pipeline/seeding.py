"""The schedule by which the inbox is read, and documents are enqueued that were held back."""

from __future__ import annotations

from pipeline import intake
from queuemgr import QueueFull, queued
from queuemgr.extend.settings import queue_settings
from queuemgr.schedules import every

NAME = "papers.seed"


def seed() -> int:
    """Enqueue PDFs in the inbox and documents without an execution, oldest first; returns how many."""
    try:
        return intake.backfill(queue_settings().seed_limit)
    except QueueFull as full:
        return full.new


def declare(seconds: int) -> None:
    """Have `seed` enqueued every so many seconds. It is a step of phase prep, of high priority: whoever
    serves the papers runs it, and before them."""
    decorate = queued(name=NAME, phase="prep", priority="high", schedule=every(seconds=seconds))
    decorate(seed)
