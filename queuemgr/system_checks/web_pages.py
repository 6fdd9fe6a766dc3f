"""What the pages need of a project, where `queuemgr.web` is installed: apps, addresses, accounts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning
from django.urls import NoReverseMatch, get_resolver, reverse

from queuemgr.operations import user_model
from queuemgr.system_checks.project import missing

NEEDED_APPS = {
    "django.contrib.admin": "our pages are pages of its kind",
    "django.contrib.sessions": "who opens them logs in",
    "django.contrib.messages": "they say what an action has done",
    "django.contrib.staticfiles": "their style sheets are files",
}
API_MIDDLEWARE = "queuemgr.web.api.middleware.api_responses"
INCLUDE = 'path("queue/", queuemgr.web.site.urls), or join_site(admin.site) before admin.site.urls, or '
INCLUDE += 'include("queuemgr.web.urls") for the API, health and metrics alone'


def web_pages(**kwargs: Any) -> list[CheckMessage]:
    if not apps.is_installed("queuemgr.web"):
        return []
    if errors := [*_apps()]:
        return errors
    return [*_addresses(), *_theme(), *_middleware(), *_accounts()]


def _apps() -> Iterator[CheckMessage]:
    for name, why in missing(NEEDED_APPS):
        yield Error(
            f"queuemgr.web is installed, and {name} is not: {why}.",
            hint=f"Add {name!r} to INSTALLED_APPS, or leave 'queuemgr.web' out: the queue works without.",
            id="queuemgr.E101",
        )


def _addresses() -> Iterator[CheckMessage]:
    if _has_addresses() and not _has_pages() and not _has_api():
        yield Warning(
            "queuemgr.web is installed, and no URL leads to any of its pages.",
            hint=f"Add to {settings.ROOT_URLCONF}: {INCLUDE}.",
            id="queuemgr.W102",
        )


def _theme() -> Iterator[CheckMessage]:
    """The theme overrides templates of the admin by standing before it."""
    names = [config.name for config in apps.get_app_configs()]
    if "unfold" in names and names.index("unfold") > names.index("django.contrib.admin"):
        yield Warning(
            "unfold is listed after django.contrib.admin: pages mix its classes with Django's templates.",
            hint="Put 'unfold' before 'django.contrib.admin' in INSTALLED_APPS, or leave it out: our pages "
            "work in Django's own admin as well.",
            id="queuemgr.W103",
        )


def _middleware() -> Iterator[CheckMessage]:
    if _has_addresses() and _has_api() and API_MIDDLEWARE not in settings.MIDDLEWARE:
        yield Warning(
            "The API is included without its middleware: an unknown address or method of it is answered by "
            "a page of HTML, and HEAD not at all.",
            hint=f"Add {API_MIDDLEWARE!r} to MIDDLEWARE, before those of sessions.",
            id="queuemgr.W104",
        )


def _accounts() -> Iterator[CheckMessage]:
    if not user_model.can_be_allowed_anything():
        yield Warning(
            f"Nobody can open our pages: {user_model.model()._meta.label} has neither has_perm() nor "
            "is_superuser, and no authentication backend answers for it.",
            hint="Derive it from PermissionsMixin, or give it has_perm(), or add a backend with has_perm() "
            "to AUTHENTICATION_BACKENDS.",
            id="queuemgr.W105",
        )


def _has_addresses() -> bool:
    """Whether this process serves pages; its addresses are imported, in which sites get our pages."""
    return bool(getattr(settings, "ROOT_URLCONF", "")) and get_resolver().url_patterns is not None


def _has_api() -> bool:
    try:
        return bool(reverse("api-v1:api-root"))
    except NoReverseMatch:
        return False


def _has_pages() -> bool:
    from queuemgr.web import links  # needs the extra, as the app does

    return any(links.address_on(site, "queuemgr_execution_changelist") for site in links.sites())
