from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate
from django.utils.module_loading import module_has_submodule

from queuemgr.base.errors import ConfigurationError
from queuemgr.flows.flow import register_derived_flow


class QueuemgrConfig(AppConfig):
    """Flow control for Celery. List it after the apps that register flows: as it becomes ready it checks
    the settings of their phases, and ends a process whose settings cannot work with exit code 3."""

    name = "queuemgr"
    verbose_name = "Queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from queuemgr.base import sqlite_options
        from queuemgr.flows import callbacks
        from queuemgr.lifecycle.callback_failures import DatabaseWatcher
        from queuemgr.scheduling.phase_settings import phase_caps
        from queuemgr.worker import celery_wiring, probe_flow, process_wide

        sqlite_options.complete_options()
        callbacks.watch(DatabaseWatcher(process_wide.kept, process_wide.damage))
        post_migrate.connect(make_missing_roles, dispatch_uid="queuemgr.roles")
        register_derived_flow(probe_flow.NAME, probe_flow.probe_flow)
        discover_flows()
        celery_wiring.install()
        try:
            phase_caps()
        except ConfigurationError as error:
            sys.stderr.write(f"configuration: {error}\n")
            raise SystemExit(3) from None


def discover_flows() -> None:
    """Import the module `flows` of each app, or `tasks` where there is none, whose flows and queued tasks
    every process has to know."""
    for config in apps.get_app_configs():
        if config.name != "queuemgr":
            for name in ("flows", "tasks"):
                if module_has_submodule(config.module, name):
                    import_module(f"{config.name}.{name}")
                    break


def make_missing_roles(sender: AppConfig, verbosity: int, **kwargs: Any) -> None:
    """After `migrate` of all apps, not `flush`: a role's permissions come from every app."""
    migrated = [config for config in apps.get_app_configs() if config.models_module]
    if sender is not migrated[-1] or "plan" not in kwargs:
        return
    from django.contrib.auth.management import create_permissions

    from queuemgr.operations import roles

    create_permissions(sender, verbosity=0, using=kwargs["using"])  # its own handler may run later
    made = roles.make()
    if made and verbosity:
        kwargs["stdout"].write(f"Roles made: {', '.join(made)}\n")
