"""Every setting is read by something besides its table: a documented setting that does nothing misleads."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from pipeline.config import PipelineSettings
from project.config import ProjectSettings
from queuemgr.base.config import LaneSettings, ObservabilitySettings, QueueSettings, SettingsGroup
from queuemgr.steptools.lanes import MIN_PENDING
from tests.compose_file import ROOT

GROUPS: tuple[type[SettingsGroup], ...] = (
    ProjectSettings, QueueSettings, LaneSettings, ObservabilitySettings, PipelineSettings,
)  # fmt: skip
PACKAGES = ("project", "pipeline", "queuemgr")
LANES = ("io", "cpu", "embedding", "proc")


@cache
def read_names() -> frozenset[str]:
    """What the code reads: attributes and texts, outside the bodies of groups of settings."""
    names: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if "migrations" not in path.parts:
                names |= set(_names(ast.parse(path.read_text())))
    return frozenset(names)


def _names(tree: ast.AST):
    for node in ast.iter_child_nodes(tree):
        is_field = isinstance(node, ast.AnnAssign) and "Field(" in ast.unparse(node.value or node)
        if is_field:
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "value" and node.args:
            yield from _texts(node.args[0])
        yield from _names(node)


def _texts(node: ast.AST):
    if isinstance(node, ast.Constant):
        yield str(node.value)
    if isinstance(node, ast.JoinedStr) and ast.unparse(node) == "f'{name}_concurrency'":
        yield from (f"{name}_concurrency" for name in (*LANES, "import"))


RULES = {"threads": "of file_concurrency and import_concurrency", "io_threads": "of io_concurrency",
         "io_oversubscribe": "of io_concurrency"}  # fmt: skip
"""Settings of lanes that only others are computed from; `test_lanes.py` tests how."""


@pytest.mark.parametrize(
    ("group", "name"),
    [(group, name) for group in GROUPS for name in group.model_fields],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_every_setting_is_read_by_something_besides_its_table(group: type[SettingsGroup], name: str) -> None:
    assert name in read_names() or name in RULES, f"{group.variable(name)} does nothing"


def test_a_setting_that_nothing_reads_is_found() -> None:
    assert "no_such_setting" not in read_names()
    assert set(MIN_PENDING) == set(LANES)
