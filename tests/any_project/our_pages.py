"""Our pages in the project: each of them on a site of our own, and on the project's site once it has them."""

from __future__ import annotations

import re
from importlib import import_module, reload
from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import clear_url_caches, reverse

import queuemgr.web
from queuemgr.models import ApiToken, AuditEntry, BulkAction, Execution, Limit, Queue, State
from queuemgr.operations.bulk import chunk
from tests.any_project.look_around import NAME, PASSWORD
from tests.integration.web.admin import every_model

HREF = re.compile(r'(?:href|action)="([^"#?]+)')


def look(ann: Any) -> dict[str, Any]:
    made = every_model.make()
    own = queuemgr.web.site
    found = {
        "own": pages(own, ann, made),
        "own acts": acts(own.name, ann, made),
        "login": logins(own.name),
        "stranger": stranger(own.name),
        "api": api(ann),
    }
    if hasattr(type(ann), "has_module_perms"):
        queuemgr.web.join_site(admin.site)
        reload(import_module("tests.any_project.urls"))
        clear_url_caches()
        every = dict(made, apitoken=ApiToken.objects.create(name="another", digest="another", owner=ann))
        found["guarded"] = guarded(ann)
        found |= {"joined": pages(admin.site, ann, every), "joined acts": acts(admin.site.name, ann, every)}
    return found


ASKED = {
    "a look-up that our list does not offer": "queuemgr/execution/?payload__startswith=x",
    "a filter of our list": "queuemgr/execution/?status=waiting",
    "any look-up of the project's list": "people/order/?note__startswith=f",
    "completing our rows": "autocomplete/?app_label=queuemgr&model_name=execution&field_name=batch&term=x",
}


def guarded(ann: Any) -> dict[str, int]:
    """What the project's site answers, once it has our pages."""
    client = client_of(ann)
    return {name: client.get(f"/admin/{address}").status_code for name, address in ASKED.items()}


def client_of(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


def pages(site: Any, ann: Any, made: dict[str, Any]) -> dict[str, Any]:
    """The status of every page of ours, those that lack our style, and links that leave the site."""
    client, statuses, unstyled, astray = client_of(ann), {}, [], set()
    base = reverse(f"{site.name}:index")
    for page in every_model.admin_pages(made, site):
        if page.name == "logout" or ("queuemgr" not in page.url and site.name == "admin"):
            continue
        response = client.get(page.url)
        statuses[page.name] = response.status_code
        if response.streaming or response.status_code != 200 or "html" not in response["Content-Type"]:
            continue
        shown = response.content.decode()
        if "<html" in shown:
            if "queuemgr/admin.css" not in shown and "queuemgr" in page.url:
                unstyled.append(page.name)
            inside = (url for url in HREF.findall(shown) if url.startswith(("/admin/", "/queue/")))
            astray |= {f"{page.name}: {url}" for url in inside if not url.startswith(base)}
    return {"statuses": statuses, "unstyled": unstyled, "astray": sorted(astray)}


def acts(site: str, ann: Any, made: dict[str, Any]) -> dict[str, Any]:
    """What happens when a person changes something on each kind of page, and what the audit log has of it."""
    client, before = client_of(ann), AuditEntry.objects.count()
    said: dict[str, Any] = {}

    def post(what: str, page: str, args: Any = (), /, **values: Any) -> Any:
        url = reverse(f"{site}:{page}", args=args)
        response = client.post(url, values, follow=True)
        leads = [url for url, _ in response.redirect_chain]
        said[what] = {"status": response.status_code, "leads": leads}
        return response

    queue, limit = Queue.objects.order_by("pk")[0], Limit.objects.get(name="fleet")
    execution = made["execution"]
    chosen = {"_selected_action": queue.pk, "action": "pause"}
    post("asked why", "queuemgr_queue_changelist", **chosen)
    post("paused", "queuemgr_queue_changelist", **chosen, reason="maintenance", until="")
    post("resumed", "queuemgr_queue_changelist", **{**chosen, "action": "resume"})
    entry = AuditEntry.objects.latest("pk")
    post("undone", "queuemgr_auditentry_undo", [entry.pk])
    edited = {"max_running": 7 if limit.max_running != 7 else 8, "reserved_high": 0, "reason": "more room"}
    post("limit edited", "queuemgr_limit_change", [limit.pk], **{**form_of(client, site, limit), **edited})
    Execution.objects.filter(pk=execution.pk).update(state=State.FAILED, phase="default", step="run")
    post("prioritised", "queuemgr_execution_action", [execution.pk], act="set_priority", priority=2)
    Execution.objects.filter(pk=execution.pk).update(state=State.FAILED)
    matched = Execution.objects.filter(state=State.FAILED).count()
    post("in bulk", "bulk_new", verb="skip", state="failed", reason="not needed", confirm=matched)
    bulk = BulkAction.objects.latest("pk")
    said["bulk"] = {"account": bulk.account, "user_id": bulk.user_id, "key": str(ann.pk)}
    for _ in range(3):
        chunk.change_next(bulk.pk, rows=100)
    bulk.refresh_from_db()
    said["bulk"] |= {"state": bulk.state, "problem": bulk.problem}
    token = post(
        "token made", "queuemgr_apitoken_add", name=f"{site}-ci", owner=ann.pk, scopes=["read"],
        rate="600/minute", expires_at="", reason="",
    )  # fmt: skip
    secret = re.search(r'value="(sluice_[^"]*)"', token.content.decode())
    answer = Client().get(
        "/internal/api/v1/executions", headers={"Authorization": f"Bearer {secret and secret[1]}"}
    )
    said["token used"] = {"status": answer.status_code}
    entries = AuditEntry.objects.order_by("pk")[before:]
    return {"said": said, "log": [[entry.actor, entry.source, entry.action] for entry in entries]}


def form_of(client: Client, site: str, limit: Limit) -> dict[str, Any]:
    form = client.get(reverse(f"{site}:queuemgr_limit_change", args=[limit.pk])).context["adminform"].form
    return {
        name: "" if value is None else value for name, value in form.initial.items() if name in form.fields
    }


def logins(site: str) -> dict[str, Any]:
    url = reverse(f"{site}:login")
    wrong = Client().post(url, {"username": NAME, "password": "wrong"})
    right = Client().post(url, {"username": NAME, "password": PASSWORD, "next": reverse(f"{site}:index")})
    entry = AuditEntry.objects.latest("pk")
    return {
        "wrong": wrong.status_code, "right": right.status_code, "leads": right.headers.get("Location"),
        "log": [entry.action, entry.target],
    }  # fmt: skip


def stranger(site: str) -> list[Any]:
    """What somebody without any permission gets of our site, by an account and without one."""
    model: Any = get_user_model()
    bob = model._default_manager.create_user("bob@example.org", password="x")
    found = []
    for client in (Client(), client_of(bob)):
        for page in ("index", "queuemgr_execution_changelist", "dashboard_fragment"):
            answer = client.get(reverse(f"{site}:{page}"))
            found.append([answer.status_code, answer.headers.get("Location", "").partition("?")[0]])
    return found


def api(ann: Any) -> dict[str, int]:
    client = client_of(ann)
    urls = ("api/v1/executions", "api/v1/docs", "health/live", "healthz", "metrics", "api/v1/nothing")
    return {url: client.get(f"/internal/{url}").status_code for url in urls}
