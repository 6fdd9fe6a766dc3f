"""Docstrings are plain text for people who read the code: an indented paragraph of one is code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def as_restructured_text(lines: list[str]) -> list[str]:
    """The lines of a docstring, each indented paragraph marked as code."""
    return list(_marked(lines))


def _marked(lines: list[str]) -> Iterator[str]:
    in_code, before = False, ""
    for line in lines:
        indented = line.startswith("    ")
        if indented and not in_code and not before.strip():
            yield from (".. code-block:: python", "")
            in_code = True
        elif line.strip() and not indented:
            in_code = False
        yield line
        before = line


def _process(app: Any, what: str, name: str, found: object, options: Any, lines: list[str]) -> None:
    lines[:] = as_restructured_text(lines)


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
