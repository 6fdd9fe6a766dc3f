"""Hand-written SQL: one module writes each table, and one module reads rows."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
WRITES = re.compile(
    r"\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+\"?((?:queuemgr|pipeline|papers)_\w+|\{\w*table\w*\})"
)
CURSORS = re.compile(r"\.cursor\(|\.fetch(?:one|many|all)\(")

MAY_USE_CURSORS = {"queuemgr/base/sql.py", "queuemgr/base/online_ddl.py"}
"""`online_ddl` runs inside migrations, on the connection that Django's schema editor has."""


def sources() -> dict[str, str]:
    paths = [path for app in ("queuemgr", "pipeline") for path in (ROOT / app).rglob("*.py")]
    return {str(p.relative_to(ROOT)): p.read_text() for p in paths if "migrations" not in p.parts}


def writers(modules: dict[str, str]) -> dict[str, set[str]]:
    """The modules whose statements write each table."""
    found = defaultdict(set)
    for path, source in modules.items():
        for table in WRITES.findall(source):
            found[table].add(path)
    return dict(found)


def test_the_statements_that_write_a_table_are_in_one_module() -> None:
    found = writers(sources())
    assert found["queuemgr_execution"] == {"queuemgr/lifecycle/states.py"}
    assert found["queuemgr_lease"] == {"queuemgr/lifecycle/leases.py"}
    assert {table: modules for table, modules in found.items() if len(modules) > 1} == {}


def test_rows_are_read_by_one_module_which_makes_named_tuples_of_them() -> None:
    assert {path for path, source in sources().items() if CURSORS.search(source)} == MAY_USE_CURSORS


def test_a_second_module_that_writes_a_table_is_found() -> None:
    sql = "UPDATE queuemgr_route SET x = 1"
    assert writers({"a.py": sql, "b.py": "INSERT INTO\n  queuemgr_route"}) == {
        "queuemgr_route": {"a.py", "b.py"}
    }
