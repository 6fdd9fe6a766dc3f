"""Every block of code that the documentation shows is run by a test, or says why it is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acceptance.documented_blocks import CODE, RUN_BY, pages, shown
from tests.acceptance.documented_page import FENCE, Page
from tests.acceptance.documented_reader import matches
from tests.compose_file import ROOT

SCENES = ROOT / "tests" / "acceptance" / "documented_scenes.py"
PAGES = pages()
SHOWN = list(shown())


@pytest.mark.parametrize("page", sorted({each.page for each in SHOWN}))
def test_a_block_is_run_by_a_test_or_says_why_it_is_not(page: str) -> None:
    of_page = [each for each in SHOWN if each.page == page]
    assert [str(each) for each in of_page if not each.run_by and not each.block.why_not] == []
    assert [str(each) for each in of_page if not each.block.is_marked_well] == []


def test_what_is_not_run_is_little_and_has_a_reason_of_a_few_words() -> None:
    left = [each for each in SHOWN if not each.run_by]
    assert len(left) < len(SHOWN) / 6
    assert [str(each) for each in left if not 10 < len(each.block.why_not) < 130] == []
    named = {name for each in left for name in re.findall(r"tests/[\w/]+\.py", each.block.why_not)}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_has_no_block_that_is_not_seen(path: Path) -> None:
    """Each has a language: `text` is for what is neither code nor a command."""
    text = re.sub(r"^ *(````+).*?^ *\1$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    fences = len(re.findall(r"^ *```", text, re.MULTILINE))
    assert len(re.findall(FENCE, text)) == fences / 2
    languages = {block.language for block in Page(path).blocks}
    assert languages <= {*CODE, "text", "json"}


@pytest.mark.parametrize("page", sorted(RUN_BY))
def test_the_test_that_runs_a_page_exists_and_names_it(page: str) -> None:
    file, _, test = RUN_BY[page].partition("::")
    source = (ROOT / file).read_text()
    assert f"def {test}(" in source if test else True
    assert Path(page).name in source or "TOGETHER" in source


def test_every_scene_that_a_page_names_is_made_and_none_is_left_over() -> None:
    made = set(re.findall(r'^@scene\("(.+)"\)$', SCENES.read_text(), re.MULTILINE))
    assert {each.block.given for each in SHOWN if each.block.given} == made


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
