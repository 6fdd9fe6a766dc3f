"""What the admin's templates ask for beyond the theme's own tags."""

from __future__ import annotations

from dataclasses import dataclass

from django import template
from django.contrib.admin.views.main import ChangeList
from django.db.models import Model

register = template.Library()


@dataclass(frozen=True)
class Chosen:
    """A filter in force: its title, what was chosen, and the query without it."""

    title: str
    choice: str
    without: str


@register.simple_tag
def chosen_filters(cl: ChangeList) -> list[Chosen]:
    """The filters of a list that are not at their first choice, which is all of it."""
    found = []
    for spec in cl.filter_specs:
        first, *others = spec.choices(cl)
        names = [str(choice["display"]) for choice in others if choice["selected"]]
        if names and not first["selected"]:
            found.append(Chosen(str(spec.title), ", ".join(names), str(first["query_string"])))
    return found


@register.filter
def headed(part: object) -> str:
    """A part of the page's heading: names of models begin with a capital, a row's own name stays."""
    text = str(part)
    return text if isinstance(part, Model) else text[:1].upper() + text[1:]
