"""Enqueues asynchronous steps that sleep. The child of `bench.async_slots`."""

from __future__ import annotations

from bench.child import answer, request


def enqueue(count: int, seconds: float) -> None:
    from bench import async_work
    from queuemgr import NewExecution, enqueue_many

    name = async_work.STEP.name
    enqueue_many(name, (NewExecution(f"{name}-{n}", {"seconds": seconds}) for n in range(count)))


if __name__ == "__main__":
    asked = request("bench.async_backlog", __doc__, do="enqueue", count=100, seconds=1.0)
    answer(asked, {"enqueue": enqueue})
