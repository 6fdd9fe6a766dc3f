"""What happens to a row is read in one place: one module writes each table, and one reads rows of SQL."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATEMENTS = re.compile(
    r"\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+\"?((?:queuemgr|pipeline)_\w+|\{\w*table\w*\})"
)
CURSORS = re.compile(r"\.cursor\(|\.fetch(?:one|many|all)\(")
ORM_WRITES = {"update", "create", "bulk_create", "bulk_update", "delete", "get_or_create", "update_or_create"}

WRITERS = {
    "Attempt": {"queuemgr/lifecycle/leases.py"},
    "Execution": {"queuemgr/lifecycle/states.py"},
    "Lease": {"queuemgr/lifecycle/leases.py"},
    "LimitState": {"queuemgr/scheduling/breakers.py"},
    "Route": {"queuemgr/scheduling/routes.py", "queuemgr/scheduling/parking.py"},
    "Wakeup": {"queuemgr/scheduling/wakeups.py"},
    "Worker": {"queuemgr/worker/worker_row.py"},
    "WorkerDrain": {"queuemgr/operations/workers.py"},
    "WorkerStatement": {"queuemgr/worker/worker_row.py"},
}
"""Of the tables that scheduling rests on. Routes are made in one module, parked and unparked in another;
retention deletes old rows of any table (`worker/housekeeping`)."""

MAY_USE_CURSORS = {"queuemgr/base/sql.py", "queuemgr/base/online_ddl.py"}
"""`online_ddl` runs inside migrations, on the connection that Django's schema editor has."""


def sources() -> dict[str, str]:
    paths = [path for app in ("queuemgr", "pipeline") for path in (ROOT / app).rglob("*.py")]
    return {str(p.relative_to(ROOT)): p.read_text() for p in paths if "migrations" not in p.parts}


def writers_by_statement(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules whose hand-written statements write each table."""
    writers = defaultdict(set)
    for path, source in modules.items():
        for table in STATEMENTS.findall(source):
            writers[table].add(path)
    return dict(writers)


def writers_by_model(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules that write the rows of each model through its manager."""
    writers = defaultdict(set)
    for path, source in modules.items():
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, ast.FunctionDef):
                for model in models_written(function):
                    writers[model].add(path)
    return dict(writers)


def models_written(function: ast.FunctionDef) -> Iterator[str]:
    """Models that a method of their manager, or of a queryset bound to a local name, writes."""
    nodes, querysets = list(ast.walk(function)), dict[str, str]()
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            querysets[node.targets[0].id] = model_of(node.value, querysets)
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    writes = [call for call in calls if isinstance(call, ast.Attribute) and call.attr in ORM_WRITES]
    yield from filter(None, (model_of(call.value, querysets) for call in writes))


def model_of(expression: ast.AST, querysets: Mapping[str, str]) -> str:
    """`Lease` of `Lease.objects.filter(…)`, and of `held.filter(…)` if `held` is such a queryset."""
    while isinstance(expression, ast.Call | ast.Attribute):
        if isinstance(expression, ast.Attribute) and expression.attr == "objects":
            return getattr(expression.value, "id", "")
        expression = expression.func if isinstance(expression, ast.Call) else expression.value
    return querysets.get(getattr(expression, "id", ""), "")


def test_the_statements_that_write_a_table_are_in_one_module() -> None:
    writers = writers_by_statement(sources())
    assert writers["queuemgr_execution"] == WRITERS["Execution"]
    assert {table: modules for table, modules in writers.items() if len(modules) > 1} == {}


def test_rows_that_scheduling_rests_on_are_written_by_their_module_only() -> None:
    strangers = {
        model: modules - WRITERS[model]
        for model, modules in writers_by_model(sources()).items()
        if model in WRITERS
    }
    assert {model: modules for model, modules in strangers.items() if modules} == {}


def test_rows_are_read_by_one_module_which_makes_named_tuples_of_them() -> None:
    assert {path for path, source in sources().items() if CURSORS.search(source)} == MAY_USE_CURSORS


def test_a_second_module_that_writes_a_table_is_found() -> None:
    modules = {"a.py": "UPDATE queuemgr_route SET x = 1", "b.py": "INSERT INTO\n  queuemgr_route"}
    assert writers_by_statement(modules) == {"queuemgr_route": {"a.py", "b.py"}}


def test_a_write_through_a_manager_is_found_whatever_stands_between() -> None:
    source = """
def direct(): Lease.objects.filter(a=1).update(b=2)
def bound():
    held = Lease.objects.filter(a=1)
    held.order_by("pk").filter(c=3).delete()
def reading(): return Route.objects.filter(a=1)
"""
    assert writers_by_model({"a.py": source}) == {"Lease": {"a.py"}}
