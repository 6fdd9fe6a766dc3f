"""Template tags of the admin, besides those of the theme."""

from __future__ import annotations

from dataclasses import dataclass

from django import template
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model

register = template.Library()


@dataclass(frozen=True)
class ActiveFilter:
    """An active filter: title, choice, and the query string without it."""

    title: str
    choice: str
    without: str


@register.simple_tag
def active_filters(cl: ChangeList) -> list[ActiveFilter]:
    """The filters of a list that are not at their first choice, which means no filter."""
    found = []
    for spec in cl.filter_specs:
        first, *others = spec.choices(cl)
        names = [str(choice["display"]) for choice in others if choice["selected"]]
        if names and not first["selected"]:
            found.append(ActiveFilter(str(spec.title), ", ".join(names), str(first["query_string"])))
    return found


@register.filter
def heading(part: object) -> str:
    """A part of the page's heading; names of models are capitalized, those of rows are not."""
    text = str(part)
    return text if isinstance(part, Model) else text[:1].upper() + text[1:]
