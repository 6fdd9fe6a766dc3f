"""The steps of the hostile flow."""

from __future__ import annotations

import time
from typing import cast

from celery import shared_task

from proof.application import misdeeds
from queuemgr import Done, LeasedTask, Work
from queuemgr.worker.probe_flow import trace


@shared_task(base=LeasedTask, name="hostile.act")
def act(work: Work) -> Done:
    """Do what the payload's `way` says; a way of a rule or a store is right so far."""
    trace(work, "start")
    try:
        result = misdeeds.done_by(str(work.inputs["way"]), work.inputs)
    finally:
        trace(work, "end")
    return cast(Done, Done(context={"acted": True}) if result is None else result)


@shared_task(base=LeasedTask, name="patient.act")
def rest(work: Work) -> Done:
    time.sleep(float(work.inputs.get("seconds", 0)))
    return Done()


@shared_task(base=LeasedTask, name="hostile.follow")
def follow(work: Work) -> Done:
    return Done()
