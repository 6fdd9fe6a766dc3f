"""The site: every page is in its contents, every link leads somewhere, nothing is another host's."""

from __future__ import annotations

import re
import subprocess
import tomllib
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from docs import commands_page
from docs.site import docstrings, foreign_hosts, links
from tests.compose_file import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
API = (DOCS / "reference" / "python.md").read_text()
TOCTREE = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)
OUT = re.compile(r"[\w.+-]+:")


def test_the_site_shows_every_page_once() -> None:
    listed = [
        line
        for page in PAGES
        for tree in TOCTREE.findall((DOCS / page).read_text())
        for line in tree.splitlines()
        if line and not line.startswith(":")
    ]
    assert sorted(f"{name}.md" for name in listed) == [page for page in PAGES if page != "index.md"]


@cache
def anchors(file: Path) -> set[str]:
    """The anchors of the headings of a file, as GitHub and the site make them."""
    text = re.sub(r"```.*?```", "", file.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    slugs = [re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings]
    ends = [f"{slug}-" for slug, heading in zip(slugs, headings, strict=True) if heading.endswith("…")]
    return {*slugs, *ends}


@pytest.mark.parametrize("page", [*(f"docs/{page}" for page in PAGES), "README.md"])
def test_every_link_leads_to_a_file_and_a_heading_of_it(page: str) -> None:
    file = ROOT / page
    for _, target in links.links(file.read_text()):
        path, _, anchor = target.partition("#")
        if OUT.match(target):
            continue
        found = (file.parent / path).resolve() if path else file
        assert found.exists(), target
        assert not anchor or found.suffix != ".md" or anchor in anchors(found), target


@pytest.mark.parametrize("page", PAGES)
def test_no_link_of_the_site_leads_out_of_its_pages(page: str) -> None:
    file = DOCS / page
    for text, target in links.links(links.shown(file)):
        if not OUT.match(target) and not target.startswith("#"):
            found = (file.parent / target.partition("#")[0]).resolve()
            assert found.is_relative_to(DOCS), (text, target)


def test_the_page_of_commands_is_up_to_date() -> None:
    remedy = "run: python docs/make_pages.py"
    page = commands_page.PAGE.read_text()
    assert commands_page.page(page) == page, remedy


MODULES = [
    "queuemgr", "queuemgr.testing", "queuemgr.django_tasks", "queuemgr.schedules", "queuemgr.web",
    *(f"queuemgr.extend.{path.stem}" for path in sorted((ROOT / "queuemgr" / "extend").glob("[a-z]*.py"))),
]  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_the_python_api_has_exactly_the_public_names(module: str) -> None:
    public = set(import_module(module).__all__)
    listed = set(re.findall(rf"^\.\. (?:auto(?!module)|py:)\w+:: {module}\.(\w+)$", API, re.MULTILINE))
    told = import_module(module).__doc__ or ""
    if module.startswith("queuemgr.extend"):
        assert f".. automodule:: {module}\n" in API
        assert {name for name in public if not re.search(rf"\b{name}\b", told)} == set()
        return
    assert listed == public


def test_names_of_step_tools_are_there() -> None:
    entries = re.findall(r"automodule:: (queuemgr\.steptools\.\w+)\n(?:   :members: (.+))?", API)
    assert entries
    for module, names in entries:
        assert all(hasattr(import_module(module), name) for name in filter(None, names.split(", ")))


def test_what_the_api_is_made_from_is_installed_where_the_site_is_made() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lock = (ROOT / "locks" / "docs.txt").read_text()
    for name in ("celery", "django", "django-tasks", "django-unfold", "furo", "myst-parser", "sphinx"):
        assert re.search(rf"^{name}==", lock, re.MULTILINE), name
    assert {re.split("[<>=]", text)[0] for text in pyproject["dependency-groups"]["docs"]} == {
        "furo", "myst-parser", "sphinx",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("[a](checks.md#project)", "[a](checks.md#project)"),
        ("[a](../CHANGELOG.md)", "[a](project/changelog.md)"),
        ("[a](../compose/README.md#start)", "[a](project/compose.md#start)"),
        ("[`queuemgr.extend`](../queuemgr/extend)", "`queuemgr.extend` (`queuemgr/extend`)"),
        ("[`tests/services`](../tests/services)", "`tests/services`"),
        ("[a](https://example.org/)", "[a](https://example.org/)"),
        ("![a](pictures/packages.svg)", "![a](pictures/packages.svg)"),
        ("```\n[a](../tests/services)\n```", "```\n[a](../tests/services)\n```"),
    ],
)
def test_links_out_of_the_pages_are_named_as_paths(written: str, shown: str) -> None:
    page = DOCS / "checks.md"
    assert links.on_the_site(written, page, page) == shown


@pytest.mark.parametrize(
    "load",
    [
        '<script src="https://example.org/a.js"></script>',
        '<link rel="stylesheet" href="//example.org/a.css">',
        '<img src="http://example.org/a.png">', '<img srcset="https://example.org/a.png 2x">',
        '<div style="background: url(https://example.org/a.png)"></div>',
        "<style>@font-face { src: url('//example.org/a.woff2') }</style>",
        "<style>@import 'https://example.org/a.css';</style>", '<form action="https://example.org/">',
        '<iframe src="https://example.org/"></iframe>', '<link rel="preconnect" href="https://example.org">',
    ],
)  # fmt: skip
def test_what_a_page_loads_from_another_host_is_found(load: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(f"<html><body>{load}</body></html>")
    assert len(list(foreign_hosts.foreign_loads(tmp_path))) == 1


def test_a_link_to_another_host_is_nothing_that_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://example.org/">b</a><img src="c.png"><script src="d.js">'
    )
    (tmp_path / "a.css").write_text("a { background: url(b.png) }")
    assert list(foreign_hosts.foreign_loads(tmp_path)) == []


def test_indented_paragraphs_of_docstrings_are_code() -> None:
    written = ["One.", "", "    a = 1", "", "    b = 2", "", "Two."]
    marked = [".. code-block:: python", ""]
    assert docstrings.as_restructured_text(written) == [*written[:2], *marked, *written[2:]]


@pytest.mark.slow_proof
def test_the_site_is_made_without_a_warning(tmp_path: Path) -> None:
    subprocess.run(["make", "docs", f"OUT={tmp_path}"], cwd=ROOT, check=True, capture_output=True)
    assert (tmp_path / "docs" / "index.html").exists()
