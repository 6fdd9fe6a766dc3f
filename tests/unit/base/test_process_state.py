"""Whatever a process remembers between calls is registered for a reset, so that nothing leaks."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuemgr.base import process_state

ROOT = Path(__file__).parents[3]

NOT_RESET = {
    "queuemgr/base/fork_gate.py:_gate": "installed once in a process; a forked child begins it anew",
    "queuemgr/flows/callbacks.py:_watchers": "set once, as the app becomes ready",
    "queuemgr/base/scheduler_lock.py:_look_for_marks": "set once, as `lifecycle.dispatch` is imported",
    "queuemgr/base/scheduler_lock.py:_note_hold": "set once, as `lifecycle.dispatch` is imported",
    "queuemgr/base/process_state.py:_resets": "the registry itself",
    "queuemgr/base/process_state.py:_setting_resets": "the registry itself",
    "queuemgr/base/redaction.py:_secrets": "a value once known as a secret is masked for ever",
    "queuemgr/worker/flow_modules.py:_at_start": "the flows are part of the program",
    "queuemgr/flows/flow.py:_derived": "the flows are part of the program",
    "queuemgr/flows/flow.py:_flows": "the flows are part of the program",
    "queuemgr/steptools/webhook_request.py:_tls": "the certificates of the system, which no database changes",
    "queuemgr/cli/subcommands.py:_registered": "the subcommands are part of the program",
    "queuemgr/base/budget_day.py:zone": "pure function of its argument",
    "queuemgr/base/rate.py:parse_rate": "pure function of its argument",
    "queuemgr/base/allowance.py:parse_allowance": "pure function of its argument",
    "queuemgr/base/allowance.py:parse_allowances": "pure function of its argument",
    "queuemgr/base/provider_left.py:from_text": "pure function of its argument",
    "queuemgr/base/limit_shorthand.py:of_rate": "pure function of its argument",
    "queuemgr/base/limit_shorthand.py:with_budget": "pure function of its arguments",
    "queuemgr/base/allowance.py:_starts_near": "pure function of its arguments",
    "queuemgr/base/meters.py:from_text": "pure function of its argument",
    "queuemgr/base/meters.py:amounts_of": "pure function of its arguments",
    "queuemgr/base/sql.py:_away_errors": "depends on what is installed",
    "queuemgr/base/sql.py:_readers": "pure function of its argument",
    "queuemgr/web/guarded_site.py:_guarded_list": "pure function of its argument",
    "queuemgr/web/guarded_site.py:guarded_page": "pure function of its argument",
    "queuemgr/web/__init__.py:_site": "the site is part of the program",
    "queuemgr/web/links.py:_sites": "the sites are part of the program",
    "queuemgr/web/own_templates.py:_engine": "depends on what is installed",
    "queuemgr/web/page_registry.py:_pages": "the pages are part of the program",
    "queuemgr/web/urls.py:urlpatterns": "the addresses are part of the program",
    "queuemgr/worker/attempt_log.py:_call_handlers": "installed once, for forked children too",
    "queuemgr/worker/attempt_log.py:_installed": "as above",
    "queuemgr/worker/celery_app.py:celery_app": "the application is part of the program",
    "queuemgr/reporting/search/found.py:_discover": "what can be searched is part of the program",
    "queuemgr/reporting/search/found.py:_kinds": "what can be searched is part of the program",
    "queuemgr/schedules/declaration.py:_registered": "the schedules are part of the program",
    "queuemgr/schedules/due_times.py:_next_of_cron": "pure function of its arguments",
    "queuemgr/lifecycle/leases.py:_kinds": "the columns are part of the program",
    "queuemgr/lifecycle/inserted_rows.py:columns": "the columns are part of the program",
    "queuemgr/lifecycle/inserted_rows.py:_values": "the columns are part of the program",
    "queuemgr/lifecycle/states.py:_replacing": "pure function of its arguments",
    "queuemgr/schedules/plan.py:timing_of": "pure function of its argument",
    "queuemgr/scheduling/phase_settings.py:_group": "pure function of its argument",
    "queuemgr/scheduling/decision_input.py:_any_day": "pure function of its argument",
    "queuemgr/scheduling/allowance_clocks.py:_dips": "pure function of its argument",
    "queuemgr/scheduling/claims.py:claims_of": "pure function of its argument",
    "pipeline/host_limits.py:_host_of": "pure function of its argument",
    "pipeline/intake.py:_schema_of": "pure function of its argument",
    "pipeline/steps/analyse/split_by_tokens.py:_splitter": "pure function of its argument",
    "pipeline/steps/http/connections.py:certificates": "what the system trusts, read once",
    "pipeline/steps/http/client.py:shared": "a client for each set of options; a forked child starts anew",
}

REGISTERING = "process_state.register"
CONTAINERS = {"dict", "list", "set", "deque", "defaultdict", "Counter", "OrderedDict", "TimedCache"}
CACHES = {"lru_cache", "cache"}
CHANGES = {"add", "append", "clear", "extend", "insert", "pop", "remove", "setdefault", "update"}


def modules() -> dict[str, ast.Module]:
    """The source of every module, by its path."""
    paths = [*(ROOT / "queuemgr").rglob("*.py"), *(ROOT / "pipeline").rglob("*.py")]
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for path in paths
        if "migrations" not in path.parts
    }


def name_of(node: ast.AST) -> str:
    """`f` of `f`, `f()`, `a.f` and `f[int]`."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", getattr(node, "attr", ""))


def containers(tree: ast.Module) -> Iterator[str]:
    """Names bound at the top of a module to something mutable."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            literal = isinstance(node.value, ast.Dict | ast.List | ast.Set)
            made = isinstance(node.value, ast.Call) and name_of(node.value) in CONTAINERS
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if literal or made:
                yield from (t.id for t in targets if isinstance(t, ast.Name))


def changed(tree: ast.Module) -> set[str]:
    """Names whose contents some statement of the module changes."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in CHANGES:
                names.add(name_of(node.func.value))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            names.add(name_of(node.value))
    return names


def remembered(tree: ast.Module) -> set[str]:
    """Everything a module keeps from one call to the next."""
    state = {name for name in containers(tree) if name in changed(tree) or name.islower()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            state |= set(node.names)
        elif isinstance(node, ast.FunctionDef) and CACHES & {*map(name_of, node.decorator_list)}:
            state.add(node.name)
    return state - {"__all__"}


def registered(tree: ast.Module) -> set[str]:
    """Names that the functions given to `process_state.register` use, themselves or through functions
    of the same module."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    names: set[str] = set()
    unread: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Expr) and ast.unparse(node).startswith(REGISTERING):
            unread |= mentioned(node)
    while unread:
        names |= unread
        called = unread & functions.keys()
        unread = {n for name in called for n in mentioned(functions[name])} - names
    return names


def mentioned(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_all_state_of_every_module_is_registered_for_the_reset() -> None:
    missing = {
        f"{path}:{name}" for path, tree in modules().items() for name in remembered(tree) - registered(tree)
    }
    assert missing == NOT_RESET.keys()


@pytest.mark.parametrize(
    "source",
    [
        "_seen: dict[str, int] = {}",
        "SEEN = set()\ndef note(x):\n    SEEN.add(x)",
        "TABLE = {}\ndef note(x):\n    TABLE[x] = 1",
        "_last = None\ndef note(x):\n    global _last\n    _last = x",
        "from functools import lru_cache\n@lru_cache(maxsize=1)\ndef settings(): ...",
        "_seen = TimedCache()\nprocess_state.register(something_else)",
    ],
)
def test_new_state_that_is_not_registered_is_found(source: str) -> None:
    tree = ast.parse(source)
    assert remembered(tree) - registered(tree)


def test_a_constant_table_is_no_state() -> None:
    assert remembered(ast.parse("UNITS = {'s': 1}\nNAMES = ['a']")) == set()


def test_a_forked_child_forgets_what_it_must_not_inherit() -> None:
    held, inherited = ["held"], ["inherited"]
    process_state.register(held.clear, in_forked_child=True)
    process_state.register(inherited.clear)
    child = os.fork()
    if not child:
        os._exit(0 if (held, inherited) == ([], ["inherited"]) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert held == ["held"]
    process_state.reset_all()
    assert (held, inherited) == ([], [])


def test_applying_a_command_line_resets_settings_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace provider or a timer reset in mid-run would be lost, not read again."""
    monkeypatch.setattr(process_state, "_resets", [])
    monkeypatch.setattr(process_state, "_setting_resets", [])
    kept, settings = ["a timer"], ["a setting"]
    process_state.register(kept.clear)
    process_state.register_settings(settings.clear)
    process_state.reset_settings()
    assert (kept, settings) == (["a timer"], [])
    process_state.reset_all()
    assert kept == []
