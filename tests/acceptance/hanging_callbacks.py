"""Flows whose callbacks never end, each in its way, one that damages its process, and a patient one whose
callbacks note their calls.

A worker started with `-I tests.acceptance.hanging_callbacks` serves them.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import shared_task
from django.db import transaction

from queuemgr import Flow, LeasedTask, Phase, Step, Work, register_flow
from queuemgr.models import CallbackFailure


@shared_task(base=LeasedTask, name="hanging.only")
def only(work: Work) -> None:
    """Nothing."""


def sleep(*arguments: Any) -> Any:
    time.sleep(600)


def be_deaf(*arguments: Any) -> Any:
    while True:
        try:
            time.sleep(600)
        except BaseException:
            continue


def spin(*arguments: Any) -> Any:
    while True:
        pass


def hang_in_a_transaction(*arguments: Any) -> Any:
    """With locks that others need: on SQLite that of everybody who writes."""
    with transaction.atomic():
        CallbackFailure.objects.filter(flow="none").delete()
        time.sleep(600)


def open_no_file(*arguments: Any) -> int:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    return 0


HANGS: dict[tuple[str, str], Callable[..., Any]] = {
    ("odd-limits", "limits"): sleep,
    ("odd-backfill", "backfill"): hang_in_a_transaction,
    ("odd-spin", "backfill"): spin,
    ("odd-cleanup", "cleanup"): be_deaf,
    ("odd-damage", "backfill"): open_no_file,
}


def _note(what: str) -> int:
    with Path(os.environ["SLUICE_DATA_DIR"], "patient.log").open("a") as log:
        log.write(f"{what}\n")
    return 0


def _register(name: str, **callbacks: Any) -> None:
    step = Step("only", "hanging.only")
    register_flow(Flow(name, (Phase("prep", 0, "waiting", "running", (step,)),), **callbacks))


for (flow, callback), hang in HANGS.items():
    _register(flow, **{callback: hang})
_register("patient", backfill=lambda limit: _note("backfill"), cleanup=lambda: _note("cleanup"))
