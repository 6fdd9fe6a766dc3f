"""Every setting is read by something besides its table: a documented setting that does nothing misleads.

A read is an attribute of an object known to be that group of settings: what a loader or `load` returned, a
name bound to that, or a parameter annotated with the group. An attribute of the same name elsewhere is none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from pipeline.config import PipelineSettings
from project.config import ProjectSettings
from queuemgr.base.config import (
    AlertSettings,
    LaneSettings,
    ObservabilitySettings,
    QueueSettings,
    WebhookSettings,
)
from queuemgr.base.settings_group import SettingsGroup
from queuemgr.steptools.lanes import compute_lanes
from queuemgr.steptools.machine import Machine
from tests.compose_file import ROOT

GROUPS: tuple[type[SettingsGroup], ...] = (
    ProjectSettings, QueueSettings, LaneSettings, ObservabilitySettings, WebhookSettings,
    AlertSettings, PipelineSettings,
)  # fmt: skip
NAMES = {group.__name__ for group in GROUPS}
LOADERS = {
    "queue_settings": "QueueSettings", "lane_settings": "LaneSettings",
    "observability_settings": "ObservabilitySettings", "webhook_settings": "WebhookSettings",
    "alert_settings": "AlertSettings",
    "pipeline_settings": "PipelineSettings",
}  # fmt: skip
PACKAGES = ("project", "pipeline", "queuemgr")

Read = tuple[str, str]
"""A group of settings, and the name read of it."""

Bound = Mapping[str, str]
"""The group of settings that a name is bound to."""


def reads(source: str) -> set[Read]:
    """What a module reads of settings, outside what declares, checks and loads them."""
    tree = ast.parse(source)
    return set(_reads(tree, _bindings(tree)))


def _reads(tree: ast.AST, bound: Bound) -> Iterator[Read]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and node.name in NAMES:
            yield from _through_properties(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if not _decorated(node, "read_once"):
                yield from _reads(node, {**bound, **_bindings(node), **_parameters(node)})
        else:
            is_read = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
            if is_read and (group := _group_of(node.value, bound)):
                yield group, node.attr
            yield from _reads(node, bound)


def _through_properties(group: ast.ClassDef) -> Iterator[Read]:
    """What the properties of a group read of it, for those who read the property."""
    for function in group.body:
        if isinstance(function, ast.FunctionDef) and _decorated(function, "property"):
            for _, name in _reads(function, {"self": group.name}):
                yield group.name, f"{function.name} -> {name}"


def _decorated(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    return any(ast.unparse(decorator) == name for decorator in function.decorator_list)


def _group_of(node: ast.expr, bound: Bound) -> str:
    """The group of settings an expression is, or empty."""
    if isinstance(node, ast.Name | ast.Attribute):
        return bound.get(ast.unparse(node), "")
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        return LOADERS.get(called, "") or next((n for n in NAMES if called == f"{n}.load"), "")
    return ""


def _bindings(tree: ast.AST) -> dict[str, str]:
    """The names in a block, and the attributes of `self`, that are assigned a group."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.NamedExpr) and node.value:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                found |= {
                    ast.unparse(t): group
                    for t, v in _pairs(target, node.value)
                    if (group := _group_of(v, {}))
                }
    return found


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=False)
    else:
        yield target, value


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    given = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    annotated = {a.arg: ast.unparse(a.annotation).removesuffix(" | None") for a in given if a.annotation}
    return {name: group for name, group in annotated.items() if group in NAMES}


@cache
def all_reads() -> frozenset[Read]:
    found: set[Read] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if "migrations" not in path.parts:
                found |= reads(path.read_text())
    found |= {("LaneSettings", name) for name in _effective_lane_settings()}
    for group, name in list(found):
        through, _, what = name.partition(" -> ")
        if what and (group, through) in found:
            found.add((group, what))
    return frozenset(found)


def _effective_lane_settings() -> Iterator[str]:
    """The settings of lanes that change a value somebody takes: `steptools.lanes` computes them by name."""
    taken = {name for package in PACKAGES for path in (ROOT / package).rglob("*.py") for name in _taken(path)}
    defaults = LaneSettings.load({}).model_dump()
    for name, full in product(LaneSettings.model_fields, (0, 500)):
        before = {**defaults, "io_concurrency": full}
        if any(_values(before, taken) != _values(before | {name: value}, taken) for value in (1, 2, 3)):
            yield name


def _taken(path: Path) -> Iterator[str]:
    """The names in `lanes().value("slots")`, and of lanes by which slots are taken: `lane_slot("cpu", …)`,
    `lanes().lane("io")`, a table of lanes."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            named = [str(a.value) for a in node.args[:1] if isinstance(a, ast.Constant)]
            if called == "value":
                yield from named
            if called in ("lane", "lane_slot"):
                yield from map(_concurrency, named)
        if isinstance(node, ast.AnnAssign) and node.value and "LaneName]" in ast.unparse(node.annotation):
            constants = (n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant))
            yield from (_concurrency(c) for c in constants if isinstance(c, str) and path.stem != "lanes")


def _concurrency(lane: str) -> str:
    return f"{lane}_concurrency"


def _values(config: Mapping[str, int], taken: Set[str]) -> dict[str, int]:
    lanes = compute_lanes(config, lambda name: "", Machine(cpus=8, memory_bytes=64 * 2**30))
    return {setting.name: setting.value for setting in lanes.settings if setting.name in taken}


@pytest.mark.parametrize(
    ("group", "name"),
    [(group, name) for group in GROUPS for name in group.model_fields],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_every_setting_is_read_by_something_besides_its_table(group: type[SettingsGroup], name: str) -> None:
    assert (group.__name__, name) in all_reads(), f"{group.variable(name)} does nothing"


@pytest.mark.parametrize(
    ("source", "is_read"),
    [
        ("queue_settings().slow", True),
        ("config = queue_settings()\nconfig.slow", True),
        ("def f(config: QueueSettings): return config.slow", True),
        ("other, config = 1, queue_settings()\nconfig.slow", True),
        ("config = row()\nconfig.slow", False),
        ("lane_settings().slow", False),
        ("@read_once\ndef queue_settings(): return QueueSettings.load().slow", False),
        ("class QueueSettings:\n  slow = 1\n  @field_validator('slow')\n  def check(self): self.slow", False),
        ("queue_settings().slow = 1", False),
    ],
)
def test_only_an_attribute_of_the_settings_counts_as_read(source: str, is_read: bool) -> None:
    assert (("QueueSettings", "slow") in reads(source)) is is_read
