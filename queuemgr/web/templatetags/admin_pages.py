"""Template tags of the admin, besides those of the theme."""

from __future__ import annotations

from typing import Any

from django import template
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model
from django.urls import reverse
from django.utils.html import format_html_join

from queuemgr.web import look, menu
from queuemgr.web.links import current_site
from queuemgr.web.search_box import box

register = template.Library()


@register.simple_tag(takes_context=True)
def our_sheets(context: Any) -> str:
    """Links to the style sheets our pages need, unless the site links them on every page."""
    sheets = look.sheets(context.get("styles"))
    return format_html_join("", '<link rel="stylesheet" href="{}">', ((sheet,) for sheet in sheets))


@register.inclusion_tag("admin/queuemgr/our_menu.html", takes_context=True)
def our_menu(context: Any) -> dict[str, Any]:
    """Links to our other pages, on a site whose menu does not have them; Django's menu is not on narrow
    screens."""
    in_menu = menu.is_in_menu(context)
    if context.get("is_popup") or (in_menu and look.has_theme()):
        return {"entries": []}
    request = context["request"]
    entries = [*menu.allowed(request, menu.BESIDE)]
    menu.mark(request, entries)
    return {"entries": entries, "narrow": in_menu}


@register.inclusion_tag("admin/queuemgr/search_box.html", takes_context=True)
def search_box(context: Any) -> dict[str, Any]:
    """The search box, once in a page: the frame of the theme has it, and so do our pages without a frame."""
    request = context["request"]
    if context.get("is_popup") or getattr(request, "has_search_box", False):
        return {}
    request.has_search_box = True
    return box(request)


@register.simple_tag(takes_context=True)
def heading_parts(context: Any) -> list[dict[str, Any]]:
    """The heading of a page in the theme: its application, its list, and its row or title."""
    opts = context.get("opts")
    if opts is None:
        title = context.get("content_title") or context.get("title")
        return [{"title": title}] if title else []
    app = current_site().name
    parts = [
        {"link": _reverse(app, "app_list", opts.app_label), "title": opts.app_config.verbose_name},
        {
            "link": _reverse(app, f"{opts.app_label}_{opts.model_name}_changelist"),
            "title": opts.verbose_name_plural,
        },
    ]
    row = context.get("original") or context.get("object")
    if isinstance(row, Model):
        link = _reverse(app, f"{opts.app_label}_{opts.model_name}_change", row.pk)
        parts.append({"link": link, "title": row})
    return parts


def _reverse(app: str, page: str, *args: Any) -> str:
    return reverse(f"admin:{page}", args=args, current_app=app)


@register.simple_tag
def active_filters(cl: ChangeList) -> list[dict[str, str]]:
    """The filters of a list that are not at their first choice, which means no filter: title, choice, and
    the query string without it."""
    active = []
    for spec in cl.filter_specs:
        first, *others = spec.choices(cl)
        names = [str(choice["display"]) for choice in others if choice["selected"]]
        if names and not first["selected"]:
            without = str(first["query_string"])
            active.append({"title": str(spec.title), "choice": ", ".join(names), "without": without})
    return active


@register.filter
def heading(part: object) -> str:
    """A part of the page's heading; names of models are capitalized, those of rows are not."""
    text = str(part)
    return text if isinstance(part, Model) else text[:1].upper() + text[1:]
