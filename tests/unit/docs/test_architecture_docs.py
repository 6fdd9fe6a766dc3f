"""docs/architecture.md names packages, files and functions that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest

from tests.compose_file import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", PAGE.replace("```", ""))))
PACKAGES = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
SHARED = {"extend", "management", "migrations"}
"""Packages of `queuemgr` that the page describes below its table."""


def test_the_packages_listed_are_exactly_the_existing_ones() -> None:
    found = {p.parent.name for p in (ROOT / "queuemgr").glob("*/__init__.py")}
    assert found == PACKAGES | SHARED


@pytest.mark.parametrize("path", [q for q in QUOTED if "/" in q and " " not in q])
def test_every_path_named_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("name", [q for q in QUOTED if re.fullmatch(r"\w+(\.\w+)+", q)])
def test_every_dotted_name_exists(name: str) -> None:
    package = name.partition(".")[0]
    if package in PACKAGES:
        assert resolve_name(f"queuemgr.{name}")
    elif package == "queuemgr":
        assert import_module(name)
    else:
        assert (ROOT / name).exists() or (ROOT / "docs" / name).exists()


@pytest.mark.parametrize("link", re.findall(r"\]\(([\w./-]+)\)", PAGE))
def test_every_link_leads_somewhere(link: str) -> None:
    assert Path(ROOT / "docs" / link).exists()
