"""Functions of an application are called in one guard each: a new place that calls one cannot forget it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from queuemgr.flows.flow import Flow, Step
from queuemgr.flows.outcomes import Done

ROOT = Path(__file__).parents[2]


def names() -> set[str]:
    """What a step, a flow or an outcome holds that is to be called."""
    return {
        field.name for kind in (Step, Flow, Done) for field in fields(kind) if "Callable" in str(field.type)
    }


def direct_calls(source: str) -> Iterator[str]:
    """Calls of one of these as a member of something that may be an application's, or by its own name."""
    wanted = names()
    for node in ast.walk(ast.parse(source)):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id == "store":
            yield called.id
        if isinstance(called, ast.Attribute) and called.attr in wanted and not _is_ours(called.value):
            yield called.attr


def _is_ours(value: ast.expr) -> bool:
    name = value.id if isinstance(value, ast.Name) else getattr(value, "attr", "")
    return name in ("callbacks", "stats", "self", "_put_off")


def test_no_function_of_an_application_is_called_outside_its_guard() -> None:
    paths = [path for path in (ROOT / "queuemgr").rglob("*.py") if "migrations" not in path.parts]
    found = {str(path.relative_to(ROOT)): list(direct_calls(path.read_text())) for path in paths}
    assert {path: calls for path, calls in found.items() if calls} == {}


def test_what_is_to_be_called_is_known_by_its_type() -> None:
    assert {"key", "cost", "weight", "resources", "needed", "store", "backfill", "forget", "link"} <= names()


def test_a_direct_call_is_seen() -> None:
    source = "a = ref.step.key(context)\nstore()\nresult.store()\nflow.backfill(3)\ncallbacks.link(flow, 'k')"
    assert sorted(direct_calls(source)) == ["backfill", "key", "store", "store"]
