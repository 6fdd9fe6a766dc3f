"""How our pages look: in the theme unfold where a project has installed it, else as Django's own admin.

The theme imports every library of template tags as it is imported: nothing here imports the theme.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.templatetags.static import static

STYLES = ("admin", "layout", "list_layout")
"""The style sheets that the frame of the theme links on every page."""


def has_theme() -> bool:
    return apps.is_installed("unfold")


def sheets(linked: Any = ()) -> list[str]:
    """The style sheets that a page of ours needs beside those that its site has linked."""
    needed = ("admin",) if has_theme() else ("admin", "plain")
    found = [static(f"queuemgr/{name}.css") for name in needed]
    return [sheet for sheet in found if sheet not in (linked or ())]
