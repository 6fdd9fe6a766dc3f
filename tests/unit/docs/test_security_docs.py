"""docs/security.md and SECURITY.md name settings, files, tests and sections that exist."""

from __future__ import annotations

import re

import pytest

from pipeline.config import PipelineSettings
from project import program_secrets
from project.config import ProjectSettings
from queuemgr.base.config import (
    AlertSettings,
    LaneSettings,
    ObservabilitySettings,
    QueueSettings,
    WebhookSettings,
)
from tests.compose_file import ROOT

DOCS = ROOT / "docs"
PAGES = {page: page.read_text() for page in (DOCS / "security.md", ROOT / "SECURITY.md")}
TEXT = "\n".join(PAGES.values())
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", TEXT)))
GROUPS = (
    ProjectSettings, QueueSettings, LaneSettings, ObservabilitySettings, WebhookSettings,
    AlertSettings, PipelineSettings,
)  # fmt: skip
SETTINGS = {group.variable(field) for group in GROUPS for field in group.model_fields}


def anchors(markdown: str) -> set[str]:
    """The fragments that a renderer makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", markdown, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("name", [q for q in QUOTED if re.fullmatch(r"SLUICE_\w+", q)])
def test_every_setting_named_exists(name: str) -> None:
    assert name in SETTINGS


@pytest.mark.parametrize("path", [q for q in QUOTED if re.fullmatch(r"[\w.-]+/[\w./-]+\.\w+", q)])
def test_every_path_named_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("name", [q for q in QUOTED if re.fullmatch(r"make [a-z-]+", q)])
def test_every_command_named_exists(name: str) -> None:
    assert re.search(rf"^{name.removeprefix('make ')}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", [q for q in QUOTED if re.fullmatch(r"test_\w+", q)])
def test_every_test_named_exists(name: str) -> None:
    assert any(f"def {name}(" in path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


def test_every_link_leads_to_a_section() -> None:
    for page, text in PAGES.items():
        for target, fragment in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", text):
            linked = (page.parent / target).resolve() if target else page
            assert linked.exists(), (page.name, target)
            assert not fragment or fragment in anchors(linked.read_text()), (page.name, target, fragment)


SECRETS = {
    "database": program_secrets.DATABASE,
    "broker": program_secrets.BROKER,
    "storage": program_secrets.FILES,
    "traces": program_secrets.TRACES,
    "Django's key": program_secrets.SESSIONS,
    "the token of `/metrics`": program_secrets.METRICS,
    "its own login": program_secrets.FLOWER_LOGIN,
    "keys of the sources of papers": program_secrets.SOURCES,
    "key of the OCR model": program_secrets.OCR,
    "key of the model": program_secrets.MODEL,
    "destinations of alerts": program_secrets.ALERTS,
    "secrets of webhooks": program_secrets.WEBHOOKS,
}
"""What the page calls them."""


def test_the_page_says_of_each_program_which_secrets_it_is_given() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGES[DOCS / "security.md"], re.MULTILINE)
    said = {program: frozenset().union(*(SECRETS[s] for s in named.split(", "))) for program, named in rows}
    assert said == dict(program_secrets.PROGRAM_SECRETS)


def test_each_promise_of_the_page_names_a_test() -> None:
    """Every section that says what others cannot do."""
    sections = re.split(r"^## ", PAGES[DOCS / "security.md"], flags=re.MULTILINE)
    promising = {s.partition("\n")[0] for s in sections if "`test_" in s}
    assert promising >= {
        "Secrets", "People, roles and tokens", "Text, files and addresses from outside",
        "The sandbox of parsers", "The broker and the fleet",
    }  # fmt: skip
