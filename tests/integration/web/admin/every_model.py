"""A row of every model there is, with one text wherever a text goes; and every page that shows them.

Made from the models themselves, so that a new column or a new page is covered without being named here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import uuid4

from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.models import Session
from django.db import models
from django.urls import URLPattern, reverse
from django.utils import timezone

from queuemgr.models import Execution, Limit, State
from queuemgr.scheduling import limit_rows

TEXT = "something"

APPS = ("queuemgr", "pipeline", "django_celery_results", "auth")


def fixed(text: str) -> dict[str, dict[str, Any]]:
    """The columns that cannot hold just any text, by model."""
    now = timezone.now()
    return {
        "execution": {
            "state": State.FAILED, "finished_at": now, "phase": "prep", "step": "probe",
            "batch_seq": 1, "run_after": now + timedelta(days=1),
        },
        "limit": {"name": f"host:{text}"[:255], "rate": "", "budget_zone": "", "from_settings": {}},
        "limitstate": {"provider_left": ""},
        "retrypolicy": {
            "phase": "prep", "max_attempts": 3, "base": 1, "ceiling": 5, "from_settings": {},
        },
        "queue": {"phase": "prep"},
        "savedview": {"list": "queuemgr.limit", "query": "", "shared": True},
        "lease": {"started_at": now, "weight": 1, "phase": "prep", "step": "probe"},
        "worker": {"queues": [text]},
        "bulkaction": {
            "verb": "retry", "state": "previewed", "filters": {"key_prefix": text}, "arguments": {},
            "cursor": 0, "up_to": 1, "finished_at": None, "started_at": None,
        },
        "scheduledrun": {"outcome": "skipped", "execution": None, "ended_at": None, "ended_as": ""},
        "batch": {"cancelled_at": None, "closed_at": None},
        "apitoken": {"rate": "600/minute", "scopes": ["read"], "revoked_at": None},
        "auditentry": {"undoes": None, "before": {"max_running": text}, "after": {text: text}},
        "minutestats": {"waited": [], "ran": [], "used": {}},
        "document": {"authors": [text], "lookups": [{"source": text, "status": text}],
                     "other_urls": [{"source": text, "url": text}], "analysis": {"summary": text,
                     "keywords": [text], "contributions": [text]}, "pages_by": {text: 1}},
        "taskresult": {"status": "SUCCESS"},
        "user": {"is_active": True, "email": "a@example.org"},
    }  # fmt: skip


def make(text: str = TEXT) -> dict[str, Any]:
    """A row of every model, by the model's name."""
    limit_rows.sync()
    made: dict[str, Any] = {}
    for config in apps.get_app_configs():
        if config.label in APPS:
            for model in config.get_models():
                _made(model, text, made)
    Limit.objects.filter(name="fleet").update(
        paused_at=timezone.now(), paused_by=text[:150], pause_reason=text[:200]
    )
    return made


def _made(model: type[models.Model], text: str, made: dict[str, Any]) -> Any:
    name = str(model._meta.model_name)
    if name not in made and model is not ContentType:
        columns = {f.name: _value(f, text, made) for f in model._meta.concrete_fields if _filled(f)}
        made[name] = model._default_manager.create(**{**columns, **fixed(text).get(name, {})})
    return made.get(name)


def _filled(field: Any) -> bool:
    return not (field.primary_key and isinstance(field, models.AutoField | models.BigAutoField))


def _value(field: Any, text: str, made: dict[str, Any]) -> Any:
    if isinstance(field, models.ForeignKey | models.OneToOneField):
        target = field.remote_field.model
        if target is field.model:
            return None
        return ContentType.objects.first() if target is ContentType else _made(target, text, made)
    if field.choices:
        return field.choices[0][0]
    if field.name == "resources":
        return "cpu=1"
    if isinstance(field, models.FileField):
        return ""
    if isinstance(field, models.CharField | models.TextField):
        return text[: field.max_length or 10_000]
    if isinstance(field, models.JSONField):
        return {text: text} if field.get_default() == {} else [text]
    if isinstance(field, models.UUIDField):
        return uuid4()
    if isinstance(field, models.DateTimeField):
        return timezone.now()
    if isinstance(field, models.DateField):
        return timezone.now().date()
    return False if isinstance(field, models.BooleanField) else 1


@dataclass(frozen=True)
class AdminPage:
    """An address of the admin and the name of its pattern."""

    name: str
    url: str


def admin_pages(made: dict[str, Any], site: Any = None) -> Iterator[AdminPage]:
    """Every address of the admin, about the rows made, each once; pages are imported with the addresses."""
    import_module(settings.ROOT_URLCONF)
    site = site or admin.site
    for pattern in _patterns(site.get_urls()):
        if pattern.name:
            given = {name: _argument(pattern.name, name, made) for name in _arguments(pattern)}
            yield AdminPage(pattern.name, reverse(f"{site.name}:{pattern.name}", kwargs=given))


def _patterns(patterns: Any) -> Iterator[URLPattern]:
    for pattern in patterns:
        if isinstance(pattern, URLPattern):
            yield pattern
        else:
            yield from _patterns(pattern.url_patterns)


def _arguments(pattern: URLPattern) -> list[str]:
    converters = getattr(pattern.pattern, "converters", {})
    regex = getattr(pattern.pattern, "regex", None)
    return [*converters, *(regex.groupindex if regex is not None and not converters else ())]


def _argument(page: str, name: str, made: dict[str, Any]) -> Any:
    """The row a page is about, by the name of its model in the page's."""
    if name == "app_label":
        return "queuemgr"
    if name == "content_type_id":
        return ContentType.objects.get_for_model(Execution).pk
    if name == "kind":
        return "csv"
    page = page.replace("bulk_", "bulkaction_") if page.startswith("bulk_") else page
    models_named = [model for model in made if f"_{model}_" in f"_{page}_"]
    first = min(models_named, key=lambda model: page.index(model), default="execution")
    return made[first].pk


NOT_KEPT = (Session, LogEntry)
"""What reading may write: who is logged in."""


def fingerprint() -> dict[str, str]:
    """What every table holds, but for sessions and when people last logged in."""
    return {
        model._meta.label: _digest(model)
        for model in apps.get_models(include_auto_created=True)
        if model not in NOT_KEPT
    }


def _digest(model: type[models.Model]) -> str:
    columns = [f.attname for f in model._meta.concrete_fields if f.name != "last_login"]
    rows = model._default_manager.order_by("pk").values_list(*columns)
    return hashlib.sha256(repr(list(rows)).encode()).hexdigest()
