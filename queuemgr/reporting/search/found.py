"""What a search finds, who finds it, and which of it comes first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.utils.module_loading import autodiscover_modules


@dataclass(frozen=True, slots=True)
class Found:
    """One hit: its name, what else is said of it, and the admin page it leads to.

    `page` is the name of the page's URL in the admin, such as `shop_order_change`; `args` are those of the
    URL, and `query` its query string.
    """

    text: str
    detail: str = ""
    page: str = ""
    args: tuple[Any, ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)


Provider = Callable[[str, int], Iterable[Found]]


@dataclass(frozen=True, slots=True)
class Kind:
    title: str
    permission: str
    provider: Provider


_kinds: dict[str, Kind] = {}
"""In the order in which they were registered, which decides between kinds that match equally well."""


def search_provider(kind: str, permission: str) -> Callable[[Provider], Provider]:
    """Make a function find things of one more kind, for users with this permission (`app.codename`).

    It is called with the text that was typed, without blanks around it, and the number of hits that are
    shown; it returns those and may return more. One that raises leaves the other kinds as they are.
    """

    def register(provider: Provider) -> Provider:
        _kinds[kind] = Kind(kind, permission, provider)
        return provider

    return register


def kinds() -> list[Kind]:
    _discover()
    return list(_kinds.values())


@cache
def _discover() -> None:
    """Import the module `queue_search` of each application, which registers its kinds. No command but a
    search needs what it imports."""
    autodiscover_modules("queue_search")


@dataclass(frozen=True, slots=True)
class Group:
    """The hits of one kind, best first. `more`: there are more than these; `problem`: why there may be."""

    kind: str
    found: list[Found]
    more: bool = False
    best: int = 5
    problem: str = ""


def rank(text: str, found: Found) -> int:
    """0: it is the text; 1: begins with it; 2: a word in it does; 3: contains it; 4: matches otherwise."""
    name, wanted = found.text.casefold(), text.casefold()
    if name == wanted:
        return 0
    at = name.find(wanted)
    if at < 0:
        return 4
    if at == 0:
        return 1
    return 3 if name[at - 1].isalnum() else 2
