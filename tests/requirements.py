"""What requirements bring, transitively, as far as it is installed here."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement

from tests.compose_file import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, GROUPS = PYPROJECT["project"], PYPROJECT["dependency-groups"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def distribution(*extras: str) -> frozenset[str]:
    """What an install of our distribution with these extras brings."""
    extra_texts = (text for extra in extras for text in PROJECT["optional-dependencies"][extra])
    return brought_by([*PROJECT["dependencies"], *extra_texts])


@cache
def groups(*names: str) -> frozenset[str]:
    """What these dependency groups bring."""
    return brought_by(text for name in names for text in GROUPS[name])


def brought_by(texts: Iterable[str]) -> frozenset[str]:
    """The names of the distributions that these requirements bring; what is not installed here brings
    nothing itself."""
    found: set[str] = set()
    seen: set[str] = set()
    todo = [(Requirement(text), "") for text in texts]
    while todo:
        requirement, extra = todo.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = normal(requirement.name)
        asked = {name, *(f"{name}[{extra}]" for extra in requirement.extras)}
        if asked <= seen:
            continue
        seen |= asked
        found.add(name)
        todo += [(Requirement(text), e) for text in _requires(name) for e in ("", *requirement.extras)]
    return frozenset(found)


def _requires(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []
