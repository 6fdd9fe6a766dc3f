from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

from django.apps import AppConfig, apps
from django.db import connections, router
from django.db.models.signals import post_migrate, pre_migrate

from queuemgr.base.errors import ConfigurationError
from queuemgr.flows.flow import register_derived_flow


class QueuemgrConfig(AppConfig):
    """Flow control for Celery. List it after the apps that register flows: as it becomes ready it checks
    the settings of their phases, and ends a process whose settings cannot work with exit code 3."""

    name = "queuemgr"
    verbose_name = "Queue"
    default_auto_field = "django.db.models.BigAutoField"
    permissions_before: frozenset[str] = frozenset()
    """The names of those there were before a `migrate`."""

    def ready(self) -> None:
        from queuemgr import system_checks
        from queuemgr.base import queue_database, sqlite_options
        from queuemgr.base.config import queue_settings, webhook_settings
        from queuemgr.flows import callbacks
        from queuemgr.flows.flow import HAND_OVER
        from queuemgr.lifecycle.callback_failures import DatabaseWatcher
        from queuemgr.lifecycle.webhook_events import FLOW
        from queuemgr.scheduling.phase_settings import phase_caps
        from queuemgr.worker import (
            celery_wiring,
            flow_modules,
            message_hand_over,
            probe_flow,
            process_wide,
            webhook_delivery,
        )

        _stop_unless(queue_settings)
        _stop_unless(webhook_settings)
        queue_database.install_router()
        sqlite_options.complete_options()
        callbacks.watch(DatabaseWatcher(process_wide.kept, process_wide.damage))
        pre_migrate.connect(remember_permissions, sender=self, dispatch_uid="queuemgr.permissions")
        post_migrate.connect(make_missing_roles, dispatch_uid="queuemgr.roles")
        register_derived_flow(probe_flow.NAME, probe_flow.probe_flow)
        register_derived_flow(FLOW, webhook_delivery.webhook_flow)
        register_derived_flow(HAND_OVER, message_hand_over.hand_over_flow)
        flow_modules.discover()
        celery_wiring.install()
        flow_modules.remember()
        system_checks.install()
        _stop_unless(phase_caps)


def _stop_unless(read: Callable[[], object]) -> None:
    """End the process with one line that says what is wrong with the settings this reads, if anything is."""
    try:
        read()
    except ConfigurationError as error:
        sys.stderr.write(f"configuration: {error}\n")
        raise SystemExit(3) from None


def remember_permissions(sender: AppConfig, **kwargs: Any) -> None:
    """Before `migrate`: which permissions there are, so that new ones can be told from removed ones."""
    from django.contrib.auth.models import Group, Permission

    from queuemgr.operations import roles

    if kwargs["using"] == router.db_for_write(Group):
        there = Permission._meta.db_table in connections[kwargs["using"]].introspection.table_names()
        cast(QueuemgrConfig, sender).permissions_before = roles.known() if there else frozenset()


def make_missing_roles(sender: AppConfig, verbosity: int, **kwargs: Any) -> None:
    """After `migrate` of all apps, not `flush`: a role's permissions come from every app."""
    migrated = [config for config in apps.get_app_configs() if config.models_module]
    if sender is not migrated[-1] or "plan" not in kwargs:
        return
    from django.contrib.auth.management import create_permissions
    from django.contrib.auth.models import Group

    from queuemgr.operations import roles

    if kwargs["using"] != router.db_for_write(Group):
        return  # roles are made where the accounts are, which may be in another database
    create_permissions(sender, verbosity=0, using=kwargs["using"])  # its own handler may run later
    made = roles.make()
    if made and verbosity:
        kwargs["stdout"].write(f"Roles made: {', '.join(made)}\n")
    before = cast(QueuemgrConfig, apps.get_app_config("queuemgr")).permissions_before
    for role, granted in roles.grant_new(before).items():
        if verbosity:
            kwargs["stdout"].write(f"Role {role} may now: {', '.join(granted)}\n")
