"""The steps of the press flow as Celery tasks."""

from __future__ import annotations

from celery import shared_task

from queuemgr import Done, LeasedTask, Work


@shared_task(base=LeasedTask, name="press.print")
def print_step(work: Work) -> Done:
    return Done({"printed": work.key})


@shared_task(base=LeasedTask, name="press.fold")
def fold_step(work: Work) -> Done:
    return Done()
