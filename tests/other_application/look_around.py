"""Runs in the press's own process: uses the queue as its operators would, and prints as one JSON object
all that they are shown."""

from __future__ import annotations

import argparse
import io
import json
from typing import Any

import django
from django.core.management import call_command, load_command_class
from django.test import Client


def main() -> None:
    django.setup()
    from press.celery import app

    app.set_default()
    call_command("migrate", verbosity=0)
    call_command("queue", "enqueue", "leaflet-1", "leaflet-2", "leaflet-3", stdout=io.StringIO())
    probes = ("queue", "enqueue", "--flow", "probe", "--phase", "fold", "--count", "3")
    call_command(*probes, stdout=io.StringIO())
    shown = {"help": helps(), "leased": leased(), "pages": pages(), "api": api()}
    print(json.dumps({**shown, "commands": commands()}))


def helps() -> dict[str, str]:
    """The help of `queue`, of each subcommand and of each action of those, and of the other commands."""
    found = {}
    for name in ("queue", "worker", "doctor"):
        parser = load_command_class("queuemgr", name).create_parser("manage.py", name)
        found |= dict(_helps(name, parser))
    return found


def _helps(name: str, parser: Any) -> Any:
    yield name, parser.format_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub, made in action.choices.items():
                yield from _helps(f"{name} {sub}", made)


def commands() -> dict[str, str]:
    """What commands that show the queue print."""
    command_lines = (
        "stats", "limits", "why leaflet-1", "show leaflet-1", "limit phase:fold", "policy out_of_ink",
        "roles", "attempts",
    )  # fmt: skip
    found = {}
    for line in command_lines:
        out = io.StringIO()
        call_command("queue", *line.split(), stdout=out)
        found[line] = out.getvalue()
    return found


def pages() -> dict[str, str]:
    """The dashboard, the lists and the first row's page of every model in the admin."""
    from django.contrib import admin
    from django.contrib.auth.models import User
    from django.urls import reverse

    client = Client()
    client.force_login(User.objects.create_superuser("ann"))
    ours = map(reverse, ("admin:dashboard_page", "admin:failures"))
    addresses = ["/admin/", *ours, "/metrics", "/health/progress"]
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        addresses.append(reverse(f"{name}_changelist"))
        first = model._default_manager.first()
        if first is not None and model._meta.app_label == "queuemgr":
            addresses.append(reverse(f"{name}_change", args=[first.pk]))
        if model._meta.model_name in ("limit", "retrypolicy", "apitoken"):
            addresses.append(reverse(f"{name}_add"))
    return {address: _page(client, address) for address in addresses}


def _page(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, f"{address}: {answer.status_code}"
    return str(answer.content.decode())


def leased() -> dict[str, int]:
    """Leases by phase, once a worker with ten slots has registered."""
    from queuemgr.flows.flow import all_queues
    from queuemgr.lifecycle.dispatch import dispatch
    from queuemgr.models import Lease
    from queuemgr.worker import registration

    registration.register("w@h", all_queues(), 10)
    dispatch()
    phases = list(Lease.objects.values_list("phase", flat=True))
    return {phase: phases.count(phase) for phase in set(phases)}


def api() -> Any:
    """The OpenAPI document."""
    from queuemgr.web.api.v1 import api as routes

    return routes.get_openapi_schema(path_prefix="/api/v1/")


if __name__ == "__main__":
    main()
