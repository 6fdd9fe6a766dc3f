"""README.md has the quick start that a test follows, and the flow that a tutorial shows can be registered."""

from __future__ import annotations

import re

import pytest

from queuemgr.flows import flow
from queuemgr.scheduling.phase_settings import phase_caps
from tests.acceptance.documented_page import Page
from tests.compose_file import ROOT

PUBLIC = {"queuemgr", "queuemgr.schedules", "queuemgr.signals", "queuemgr.testing", "queuemgr.web"}
README = Page(ROOT / "README.md")
QUICK_START = Page(ROOT / "docs" / "quick_start.md")
FLOW = Page(ROOT / "docs" / "tutorials" / "several_steps.md")


def test_the_quick_start_of_the_readme_is_the_one_that_is_run() -> None:
    blocks = [(block.language, block.text) for block in QUICK_START.blocks]
    assert [(block.language, block.text) for block in README.blocks][: len(blocks)] == blocks


def test_the_readme_names_the_files_it_changes() -> None:
    named = {block.caption.partition(",")[0] for block in QUICK_START.blocks if block.caption}
    assert {name for name in named if f"`{name}`" not in README.path.read_text()} == set()


def test_the_flow_of_the_tutorial_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "_flows", {})
    exec(compile(FLOW.blocks[0].text, FLOW.path.name, "exec"), {})
    letters = flow.get_flow("letters")
    assert [at.step.key({"host": "a"}) for at in letters.steps()] == ["", "host:a"]
    assert phase_caps() == {"send": 20, "write": 0}
    assert "mailbox_full" in flow.all_error_kinds()


def test_every_name_that_pages_import_is_public() -> None:
    pages = [README.path, *(ROOT / "docs").rglob("*.md")]
    text = "".join(page.read_text() for page in pages)
    imported = re.findall(r"^(?:>>> )?from (queuemgr\S*) import (.+)$", text, re.MULTILINE)
    assert imported
    for module, names in imported:
        assert module in PUBLIC or module.startswith("queuemgr.extend.")
        exec(f"from {module} import {names}")
