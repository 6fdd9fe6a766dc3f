"""The Celery application: whether there is one that workers hear, and settings of it that stop the queue."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from celery import Celery, current_app
from django.core.checks import CheckMessage, Error, Warning
from kombu import serialization

from queuemgr.base.config import lane_settings
from queuemgr.base.queue_database import vendor
from queuemgr.flows.flow import HOUSEKEEPING, all_queues, application_flows
from queuemgr.scheduling.phase_settings import time_limits
from queuemgr.worker.celery_app import active_apps, application_in, celery_app, stated_module

FILES = "filesystem://"


def application(**kwargs: Any) -> list[CheckMessage]:
    app = celery_app()
    checks = (_several_applications, _broker, _queues, _serializer, _pool, _async_slots, _time_limits)
    return [*_stated_application(), *(message for check in checks for message in check(app))]


def for_deployment(**kwargs: Any) -> list[CheckMessage]:
    app = celery_app()
    return [*_eager(app), *_files_of_one_machine(app)]


def _stated_application() -> Iterator[CheckMessage]:
    name = stated_module()
    if name and application_in(name) is None:
        yield Error(
            f"SLUICE_CELERY_APP is {name!r}, where no Celery application is found.",
            hint="Name the module that has it as `app` or `celery`, such as 'shop.celery'; or remove the "
            "setting: it is looked for beside the settings.",
            id="queuemgr.E020",
        )


def _several_applications(app: Celery) -> Iterator[CheckMessage]:
    named = sorted({each.main for each in active_apps() if each.main not in ("default", None)})
    if len(named) > 1:
        yield Warning(
            f"This process has several Celery applications ({', '.join(named)}); the queue sends "
            f"through {current_app.main!r}, and workers of another broker get nothing.",
            hint="Start the workers with -A of that application, or name the right one in SLUICE_CELERY_APP.",
            id="queuemgr.W021",
        )


def _broker(app: Celery) -> Iterator[CheckMessage]:
    address = app.conf.broker_write_url
    if not address:
        yield Warning(
            f"The Celery application {app.main!r} states no broker: Celery tries RabbitMQ on this machine.",
            hint="State CELERY_BROKER_URL, and read it by app.config_from_object('django.conf:settings', "
            "namespace='CELERY'); or do without an application of your own: messages are then files.",
            id="queuemgr.W022",
        )
    elif str(address).startswith("memory"):
        yield Warning(
            "The broker is memory://, which reaches this process only: workers hear of nothing.",
            hint="State another CELERY_BROKER_URL outside of tests.",
            id="queuemgr.W023",
        )


def _queues(app: Celery) -> Iterator[CheckMessage]:
    if app.conf.task_create_missing_queues:
        return
    stated = {str(getattr(queue, "name", queue)) for queue in app.conf.task_queues or ()}
    if missing := [name for name in (*all_queues(), HOUSEKEEPING) if name not in stated]:
        yield Error(
            f"CELERY_TASK_CREATE_MISSING_QUEUES is off and CELERY_TASK_QUEUES lacks {', '.join(missing)}: "
            "messages to these queues raise an error.",
            hint="Add them to CELERY_TASK_QUEUES, or leave CELERY_TASK_CREATE_MISSING_QUEUES on.",
            id="queuemgr.E024",
        )


def _serializer(app: Celery) -> Iterator[CheckMessage]:
    written, accepted = app.conf.task_serializer, app.conf.accept_content or ()
    types: Any = serialization.registry.name_to_type  # type: ignore[attr-defined]  # its stubs lack it
    if types.get(written, written) not in {types.get(each, each) for each in accepted}:
        yield Error(
            f"Messages are written as {written}, which CELERY_ACCEPT_CONTENT lacks: workers refuse them.",
            hint=f"Add {written!r} to CELERY_ACCEPT_CONTENT, or remove CELERY_TASK_SERIALIZER.",
            id="queuemgr.E025",
        )


def _pool(app: Celery) -> Iterator[CheckMessage]:
    if str(app.conf.worker_pool) in ("gevent", "eventlet"):
        yield Warning(
            f"CELERY_WORKER_POOL is {app.conf.worker_pool}, with which leases are not safe: workers of the "
            "queue refuse to start.",
            hint="Start them with -P threads or -P prefork; other workers keep their pool.",
            id="queuemgr.W026",
        )


def _async_slots(app: Celery) -> Iterator[CheckMessage]:
    """The pool may be named on the command line, too: only one that is stated is looked at."""
    pool = str(app.conf.worker_pool)
    if lane_settings().async_slots and app.conf.value_set_for("worker_pool") and pool not in HAVE_ASYNC_SLOTS:
        yield Warning(
            f"SLUICE_ASYNC_SLOTS is set, and CELERY_WORKER_POOL is {pool}, which has no async slots: "
            "workers of the queue refuse to start.",
            hint="Start them with -P threads; or unset it, and asynchronous steps take slots.",
            id="queuemgr.W030",
        )


HAVE_ASYNC_SLOTS = ("threads", "solo")
"""Pools whose steps run in the process of the worker, as its event loop does."""


def _time_limits(app: Celery) -> Iterator[CheckMessage]:
    for number, kind in enumerate(("soft_time_limit", "time_limit")):
        seconds = app.conf[f"task_{kind}"]
        if seconds and (flows := _flows_without(number)):
            shown = ", ".join(flows[:SHOWN]) + (" …" if len(flows) > SHOWN else "")
            yield Warning(
                f"CELERY_TASK_{kind.upper()} = {seconds} has no effect on what goes through the queue, whose "
                f"messages carry limits of their own: {shown} may run without one.",
                hint=f"State {kind}={seconds} where the task or the step is declared, or "
                f"SLUICE_{kind.upper()}_<PHASE> for all of a phase.",
                id="queuemgr.W027",
            )


SHOWN = 5
"""Names of flows in one message."""


def _flows_without(number: int) -> list[str]:
    """Flows with a step that has no limit: soft (0) or hard (1)."""
    steps = (ref for flow in application_flows() for ref in flow.steps())
    return sorted({ref.flow for ref in steps if math.isinf(time_limits(ref)[number])})


def _eager(app: Celery) -> Iterator[CheckMessage]:
    if app.conf.task_always_eager:
        yield Warning(
            "CELERY_TASK_ALWAYS_EAGER is on: queued tasks run in the process that calls them, under no "
            "limit, and nothing is stored.",
            hint="Leave it to the settings of tests.",
            id="queuemgr.W028",
        )


def _files_of_one_machine(app: Celery) -> Iterator[CheckMessage]:
    if str(app.conf.broker_write_url or "").startswith(FILES) and vendor() == "postgresql":
        yield Warning(
            "Messages are files of this machine, and the database is one that others may use: workers on "
            "another machine hear of work only as their own steps end.",
            hint="State CELERY_BROKER_URL, such as redis://HOST:6379/0, once there is a second machine.",
            id="queuemgr.W029",
        )
