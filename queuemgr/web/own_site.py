"""An admin site with our pages and nothing else, beside whatever admin the project has.

    path("queue/", queuemgr.web.site.urls)

It has its own login, which any user model passes, its own templates and theme, and the dashboard on its front
page.
"""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.templatetags.static import static

from queuemgr.operations import user_model
from queuemgr.web import links, menu, page_views
from queuemgr.web.admin.dashboard import dashboard
from queuemgr.web.admin.login import LoginForm
from queuemgr.web.admin_classes import BaseSite
from queuemgr.web.guarded_site import GuardedSite
from queuemgr.web.look import STYLES, has_theme
from queuemgr.web.own_templates import own_template
from queuemgr.web.page_registry import join_site

NAME = "sluicegate"

PRIMARY = {
    "50": "#eff6ff", "100": "#dbeafe", "200": "#bfdbfe", "300": "#93c5fd", "400": "#60a5fa", "500": "#5b9bf8",
    "600": "#2563eb", "700": "#1d4ed8", "800": "#1e40af", "900": "#1e3a8a", "950": "#172554",
}  # fmt: skip
"""The theme's colour."""


class OwnSite(GuardedSite, BaseSite):
    site_header = site_title = "Sluicegate"
    site_url = None
    index_title = "Dashboard"
    index_template = "admin/queuemgr/index.html"
    login_form = LoginForm
    settings_name = "SLUICE_UNFOLD"
    """So that the theme's settings of the project, and the callbacks in them, are for its own pages."""

    own_template = staticmethod(own_template)

    def has_permission(self, request: HttpRequest) -> bool:
        return user_model.may_open_pages(request.user)

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        return page_views.around(super().admin_view(view, cacheable), self)

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        page: HttpResponse = page_views.around(super().login, self)(request, extra_context)
        return page

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context = super().each_context(request)
        if not has_theme():
            return context
        shown = self.has_permission(request)
        return {
            **context,
            "site_title": self.site_title,
            "site_header": self.site_header,
            "site_symbol": "water",
            "site_url": "",
            "site_favicons": [
                {"rel": "icon", "type": "image/svg+xml", "href": static("queuemgr/sluicegate.svg")}
            ],
            "styles": [static(f"queuemgr/{name}.css") for name in STYLES],
            "colors": {**context["colors"], "primary": PRIMARY},
            "sidebar_navigation": menu.navigation(request) if shown else [],
        }

    def index(self, request: HttpRequest, extra_context: Any = None) -> TemplateResponse:
        shown = dashboard(request, {**(extra_context or {})})
        return AdminSite.index(self, request, shown)

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """As our menu, where Django would sort by name; pages that are no list are in it as well."""
        if not self.has_permission(request):
            return []  # the page of the login asks, too
        apps = super().get_app_list(request, app_label)
        if app_label is not None:
            return apps
        lists = {model["admin_url"]: model for app in apps for model in app["models"]}
        return [self._group(group, lists) for group in menu.navigation(request)]

    def _group(self, group: dict[str, Any], lists: dict[str, Any]) -> dict[str, Any]:
        entries = [lists.get(item["link"]) or _no_list(item) for item in group["items"]]
        label = f"queuemgr-{group['title'].lower().replace(' ', '-')}"
        app_url = links.address("app_list", "queuemgr")
        return {
            "name": group["title"], "app_label": label, "app_url": app_url, "has_module_perms": True,
            "models": entries,
        }  # fmt: skip


def _no_list(item: dict[str, Any]) -> dict[str, Any]:
    """A page as an entry among lists. Django marks an entry whose address that of the page begins with, as
    each does with that of the front page."""
    front = item["link"] == links.address("index")
    return {
        "model": None, "name": item["title"], "object_name": item["title"].replace(" ", ""), "perms": {},
        "admin_url": f"{item['link']}#dashboard" if front else item["link"], "add_url": None,
        "view_only": True,
    }  # fmt: skip


def make() -> OwnSite:
    site = OwnSite(NAME)
    join_site(site)
    return site
