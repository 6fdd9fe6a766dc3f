"""The templates of a site of ours: our frame, the theme's or Django's own, never those of the project.

A project that overrides templates of its admin means its own site; one of ours would not know its pages. And
our frame, which overrides templates of the theme, is seen by no other page of the project.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from django.apps import apps
from django.template.backends.django import DjangoTemplates

from queuemgr.web.look import has_theme

HERE = Path(__file__).parent

FRAME = HERE / "frame"
"""Overrides of the theme's templates. A project whose whole admin is to look like ours lists it in the `DIRS`
of its `TEMPLATES`."""

PROCESSORS = (
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
)


def own_template(name: Any) -> Any:
    """The first of these templates that there is."""
    if isinstance(name, str):
        return _engine().get_template(name)
    return _engine().select_template(name) if isinstance(name, list | tuple) else name


class _Engine(DjangoTemplates):
    def select_template(self, names: Any) -> Any:
        from django.template import TemplateDoesNotExist

        for name in names:
            try:
                return self.get_template(name)
            except TemplateDoesNotExist:
                continue
        raise TemplateDoesNotExist(", ".join(names), backend=self)


@cache
def _engine() -> _Engine:
    themed = has_theme()
    first = (FRAME, HERE / "templates") if themed else (HERE / "templates",)
    below = ("unfold", "django.contrib.admin") if themed else ("django.contrib.admin",)
    return _Engine(
        {
            "NAME": "sluicegate",
            "DIRS": [*first, *(Path(_folder_of(name)) / "templates" for name in below)],
            "APP_DIRS": True,
            "OPTIONS": {"context_processors": [*PROCESSORS]},
        }
    )


def _folder_of(name: str) -> str:
    return next(config.path for config in apps.get_app_configs() if config.name == name)
