"""The example of an application in README.md works as it is written."""

from __future__ import annotations

import re

import pytest

from queuemgr.flows import flow
from queuemgr.scheduling.phase_settings import phase_caps
from tests.compose_file import ROOT

PYTHON = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_the_flow_in_the_readme_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "_flows", {})
    names: dict[str, object] = {}
    exec(compile(PYTHON[0], "README.md", "exec"), names)
    letters = flow.get_flow("letters")
    assert next(letters.steps()).step.key({"host": "a"}) == "host:a"
    assert phase_caps() == {"send": 20}
    assert "mailbox_full" in flow.all_error_kinds()


def test_every_name_the_readme_imports_is_public() -> None:
    for block in PYTHON:
        for imported in re.findall(r"^from (queuemgr\S*) import (.+)$", block, re.MULTILINE):
            assert imported[0] == "queuemgr"
            exec(f"from queuemgr import {imported[1]}")
