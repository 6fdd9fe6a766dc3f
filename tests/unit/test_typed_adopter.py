"""What typed code of an adopter may write and may not: `tests/typed_adopter`, which mypy reads as our own."""

from __future__ import annotations

import re
import tomllib

from tests.compose_file import ROOT


def test_what_a_typed_project_may_write_and_may_not_is_checked_by_strict_mypy() -> None:
    """An error that mypy no longer finds is an ignore too many, which strict mypy refuses."""
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert mypy["strict"] and "tests.typed_adopter" in mypy["packages"]
    assert mypy.get("warn_unused_ignores", True)
    calls = (ROOT / "tests" / "typed_adopter" / "calls.py").read_text()
    wrong = set(re.findall(r"(\w+)\(.*  # type: ignore\[(?:arg-type|call-arg)\]", calls))
    assert wrong >= {"enqueue", "later"}
    assert "assert_type(" in calls
