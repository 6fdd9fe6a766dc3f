"""What a checker ignores in the code that is installed has its reason beside it."""

from __future__ import annotations

import re

from tests.compose_file import ROOT

CODES = r"type: ignore\[[\w, -]+\]|noqa: [A-Z0-9]+(?:, ?[A-Z0-9]+)*"
IGNORE = re.compile(rf"# (?:{CODES})(?P<why>.*)$", re.MULTILINE)


def test_every_ignore_says_why() -> None:
    files = [path for app in ("queuemgr", "pipeline", "project") for path in (ROOT / app).rglob("*.py")]
    found = [(path, ignore) for path in files for ignore in IGNORE.finditer(path.read_text())]
    assert len(found) > 20
    bare = [(path, one[0]) for path, one in found if not one["why"].strip(" #-")]
    assert bare == []
