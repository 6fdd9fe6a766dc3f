"""Runs in the project's own process: opens the project's pages and ours, acts on ours, and prints as one JSON
object what came of it."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib import invalidate_caches
from pathlib import Path
from typing import Any

import django
from django.core.management import ManagementUtility, call_command
from django.test import Client
from django.test.utils import setup_test_environment

NAME, PASSWORD = "ann@example.org", "ofCourse-1234"
CHANGES_EACH_TIME = re.compile(
    r'(name="csrfmiddlewaretoken" value="|nonce=")[^"]*|\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?|\d\d:\d\d:\d\d'
    r"|Nov\. \d+, \d{4}, [\d:]+ [ap]\.m\.|[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}"
)


def main() -> None:
    django.setup()
    setup_test_environment()
    from django.apps import apps
    from django.conf import settings

    make_migrations(Path(os.environ["DIRECTORY"]))
    for alias in settings.DATABASES:
        call_command("migrate", database=alias, verbosity=0)
    ann = superuser()
    found: dict[str, Any] = {"help": help_text(), "checks": messages(), "project": dict(projects_pages(ann))}
    if apps.is_installed("queuemgr.web"):
        from tests.any_project import our_pages

        found |= our_pages.look(ann)
    print(json.dumps(found))


def make_migrations(directory: Path) -> None:
    """Those of the project's own models: other apps depend on the one of its accounts."""
    package = directory / "migrations_of_people"
    package.mkdir()
    (package / "__init__.py").touch()
    sys.path.insert(0, str(directory))
    call_command("makemigrations", "people", verbosity=0)
    invalidate_caches()


def superuser() -> Any:
    from django.contrib.auth import get_user_model

    return get_user_model()._default_manager.create_superuser(NAME, password=PASSWORD)


def help_text() -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        ManagementUtility(["manage.py", "help"]).execute()
    return out.getvalue()


def messages() -> list[str]:
    from django.core import checks

    return sorted(str(message) for message in checks.run_checks() if message.id != "queuemgr.W023")


def projects_pages(ann: Any) -> Iterator[tuple[str, str]]:
    """Each page of the project's admin, without what differs from one request to the next."""
    from django.contrib import admin

    if not hasattr(type(ann), "has_module_perms"):
        return  # this admin cannot be used with such accounts
    from tests.any_project.people.models import Order

    order = Order.objects.create(number="17", note="fragile")
    yield "login", text(Client().get("/admin/login/"))
    client = Client()
    client.force_login(ann)
    lists = "?note__startswith=f", "?q=1", "?o=-1", ""
    addresses = [
        "/admin/",
        "/admin/people/",
        "/admin/password_change/",
        f"/admin/people/order/{order.pk}/change/",
    ]
    addresses += [f"/admin/people/order/{query}" for query in lists]
    for model in admin.site._registry:
        base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        addresses += [base, f"{base}add/"]
    for address in addresses:
        yield address, text(client.get(address))
    saved = client.post("/admin/people/order/add/", {"number": "18", "note": ""}, follow=True)
    yield "saved", text(saved)
    yield "logged out", text(client.post("/admin/logout/"))


def text(response: Any) -> str:
    return f"{response.status_code}\n{CHANGES_EACH_TIME.sub('-', response.content.decode())}"


if __name__ == "__main__":
    main()
