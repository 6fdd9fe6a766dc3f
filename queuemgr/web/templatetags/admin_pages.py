"""Template tags of the admin, besides those of the theme."""

from __future__ import annotations

from django import template
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model

register = template.Library()


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
