"""Every block of code of the quick start and the tutorials is run by a test, or says why it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.documented_page import Block, Page
from tests.acceptance.documented_reader import matches
from tests.compose_file import ROOT

DOCS = ROOT / "docs"
PAGES = [DOCS / "quick_start.md", DOCS / "web_pages.md", *sorted((DOCS / "tutorials").glob("*.md"))]
FOLLOWED = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_test_follows_the_page(path: Path) -> None:
    assert f'"{path.name}"' in FOLLOWED


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_block_is_run_or_says_why_not(path: Path) -> None:
    blocks = Page(path).blocks
    assert blocks
    assert len(blocks) == path.read_text().count("```") // 2
    for block in blocks:
        assert is_run(block) or block.why_not, f"line {block.line}"
        assert block.mark == "" or block.why_not or block.until, f"line {block.line}: {block.mark}"


def is_run(block: Block) -> bool:
    return bool(
        block.caption or block.language == "pycon" or (block.language == "console" and block.commands)
    )


def test_what_is_typed_and_what_is_printed_are_told_apart(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n```console\n$ one \\\n    more\nprinted\n\ntoo\n$ two\n```\n\n"
        "<!-- not run: it needs a cluster -->\n```console\n$ three\n```\n\n"
        "<!-- after Ctrl-C, runs until it says: ready -->\n```console\n$ four\n```\n\n"
        "```{code-block} python\n:caption: a/b.py, at the end\n:emphasize-lines: 2\n\nx = 1\n```\n"
    )
    first, second, third, fourth = Page(page).blocks
    assert [(c.text, c.printed) for c in first.commands] == [
        ("one \\\n    more", "printed\n\ntoo"), ("two", ""),
    ]  # fmt: skip
    assert second.why_not == "it needs a cluster"
    assert (third.until, third.is_restart) == ("ready", True)
    assert (fourth.caption, fourth.text) == ("a/b.py, at the end", "x = 1\n")


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a", "a", True), ("a", "b", False), ("", "anything", True), ("a\n...\nc", "a\nb\nb\nc", True),
        ("paused by ...: why", "paused by root: why", True), ("a\n...", "b\na", False),
    ],
)  # fmt: skip
def test_dots_stand_for_anything(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same
