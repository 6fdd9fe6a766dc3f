"""Hooks the queue into a Celery application: registration of workers, periodic jobs, and queues to consume.

Every application of the process is hooked when it is finalized, which is how Celery gives shared tasks to
applications that are made later.
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery._state import connect_on_app_finalize
from celery.signals import beat_embedded_init, beat_init, celeryd_init

from queuemgr.flows.flow import HOUSEKEEPING, all_queues
from queuemgr.worker.celery_app import active_apps, celery_app
from queuemgr.worker.useless_processes import log_useless_beat

REGISTRATION = "queuemgr.worker.registration:WorkerRegistration"
ASYNC_CONSUMER = "queuemgr.worker.async_consumer:AsyncConsumer"
PERIODIC_JOBS = "queuemgr.worker.beat"


def install() -> None:
    """Hook into the applications there are, and those to come; called once Django's models are loaded."""
    app = celery_app()
    already = [made for made in active_apps() if made.finalized]
    connect_on_app_finalize(hook_into)
    for made in already:
        hook_into(made)
    app.finalize()  # so that queued tasks register their flows
    celeryd_init.connect(serve_all_queues, dispatch_uid="queuemgr.queues")
    for starts in (beat_init, beat_embedded_init):
        starts.connect(log_useless_beat, dispatch_uid="queuemgr.beat")


def hook_into(app: Celery) -> None:
    """Have its workers register, and its beat send the periodic jobs. Names only: nothing is imported here,
    since web servers have an application, too."""
    from queuemgr.worker.beat_schedule import beat_schedule

    app.steps["worker"].add(REGISTRATION)
    app.steps["consumer"].add(ASYNC_CONSUMER)
    app.conf.include = list(dict.fromkeys([*(app.conf.include or ()), PERIODIC_JOBS]))
    app.conf.beat_schedule = {**(app.conf.beat_schedule or {}), **beat_schedule()}


def serve_all_queues(instance: Any, options: dict[str, Any], **kwargs: Any) -> None:
    """Have a worker started without `-Q` consume the queues of all flows beside those of the application."""
    if not options.get("queues"):
        for name in (*all_queues(), HOUSEKEEPING):
            instance.app.amqp.queues.select_add(name)
