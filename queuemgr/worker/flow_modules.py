"""Where flows and queued tasks are found: the module `flows` of each app, or `tasks` where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from django.apps import AppConfig, apps
from django.utils.module_loading import module_has_submodule

from queuemgr.flows.flow import application_flows

MODULES = ("flows", "tasks")


def discover() -> None:
    """Import them all: every process has to know every flow."""
    for name in found():
        import_module(name)


_at_start: set[str] = set()


def remember() -> None:
    """Remember which flows there are, once all apps are loaded and the tasks have registered theirs."""
    _at_start.update(flow.name for flow in application_flows())


def known_at_start() -> frozenset[str]:
    """The names of those flows."""
    return frozenset(_at_start)


def found() -> list[str]:
    """The modules there are, by their full names."""
    return [name for config in _others() for name in _module_of(config)]


def _module_of(config: AppConfig) -> Iterator[str]:
    for name in MODULES:
        if module_has_submodule(config.module, name):
            yield f"{config.name}.{name}"
            return


def _others() -> list[AppConfig]:
    return [config for config in apps.get_app_configs() if config.name != "queuemgr"]


def where_to_look() -> str:
    """What was looked at, for somebody whose flow was not found."""
    if modules := found():
        return f"none is registered by {', '.join(modules)}"
    without = [config.name for config in _others() if not config.name.startswith("django.")]
    return f"no app has a module `flows` or `tasks` ({', '.join(without) or 'no app of yours is installed'})"
