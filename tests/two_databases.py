"""Which tests run on which database, and how several test processes share the work.

A test runs on both databases only if its path reaches hand-written SQL or locks: that is where they can
differ. `RULES` says so for folders and, where a folder holds both kinds, for modules; of a test that makes
sense on one of them only, `@pytest.mark.only_on("postgres", why="needs two connections")` says so.

With `pytest -n`, every other process has PostgreSQL and the rest SQLite. A test that wants one of them
says so in its name (`…[on-sqlite]`) and goes to a process that has it; any other goes to whichever is free.
Tests of one module stay together; modules are handed out in the order of `RULES`, so that those that wait
for processes come first and short ones fill the gaps at the end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.private_servers import DATABASE, DATABASES, ONE_FOR_ALL, PROCESS, database_of

HERE = Path(__file__).parent
POSTGRES = ("postgres",)
SQLITE = ("sqlite",)
ANY: tuple[str, ...] = ()
RULES = {
    "acceptance/test_up.py": POSTGRES,
    "acceptance/test_up_continued.py": POSTGRES,
    "acceptance/test_documentation.py": POSTGRES,
    "acceptance/test_adopter_project.py": SQLITE,
    "acceptance/test_wrong_projects.py": SQLITE,
    "acceptance/test_rolling_deploy.py": SQLITE,
    "acceptance/test_installed_wheel.py": ANY,
    "acceptance/test_killed_workers.py": DATABASES,
    "acceptance/test_locks.py": DATABASES,
    "acceptance/test_migrating.py": DATABASES,
    "acceptance/test_restore.py": DATABASES,
    "acceptance/test_schedules_in_processes.py": DATABASES,
    "acceptance/test_shutdown.py": DATABASES,
    "acceptance": POSTGRES,
    "browser": POSTGRES,
    "services": POSTGRES,
    "model/test_window_model.py": ANY,
    "model": DATABASES,
    "integration/base": DATABASES,
    "integration/lifecycle": DATABASES,
    "integration/local/test_doctor_table.py": POSTGRES,
    "integration/local/test_unreachable_database.py": POSTGRES,
    "integration/local/test_draining.py": DATABASES,
    "integration/operations/test_every_number.py": POSTGRES,
    "integration/operations/test_every_change_is_recorded.py": SQLITE,
    "integration/operations/test_rights_of_who_acts.py": SQLITE,
    "integration/operations/test_roles_of_a_project.py": SQLITE,
    "integration/operations": DATABASES,
    "integration/pipeline/test_connections.py": DATABASES,
    "integration/pipeline/test_papers.py": SQLITE,
    "integration/reporting/test_export.py": SQLITE,
    "integration/reporting": DATABASES,
    "integration/scheduling": DATABASES,
    "integration/schedules": DATABASES,
    "integration/webhooks": DATABASES,
    "integration/alerts": DATABASES,
    "integration/web/admin/test_dashboard_values.py": DATABASES,
    "integration/web/admin": POSTGRES,
    "integration/web/api": POSTGRES,
    "integration/web/metrics/test_metric_series.py": DATABASES,
    "integration/web/metrics/test_metrics.py": DATABASES,
    "integration/web/test_health.py": DATABASES,
    "integration/web/test_any_project.py": POSTGRES,
    "integration/web/test_web_server.py": ANY,
    "integration/tasks/test_queued.py": POSTGRES,
    "integration/test_testing_helpers.py": DATABASES,
    "integration/worker/test_callbacks_of_flows.py": SQLITE,
    "integration/worker/test_callbacks_and_their_process.py": SQLITE,
    "integration/worker/test_file_transport.py": ANY,
    "integration/worker": DATABASES,
    "integration/pipeline/steps": ANY,
    "integration/steptools": ANY,
    "integration": SQLITE,
    "unit": ANY,
}
"""The databases the tests of a module or a folder run on; the first entry that fits counts."""

ON = re.compile(r"[\[-]on-(\w+)[\]-]")
"""The part of a test's name that says which database it runs on."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    databases = _databases_of(metafunc.definition)
    if databases and PROCESS and not ONE_FOR_ALL:
        metafunc.fixturenames.append("database_of_test")
        ids = [f"on-{database}" for database in databases]
        metafunc.parametrize("database_of_test", databases, ids=ids)


def _databases_of(test: pytest.Item) -> tuple[str, ...]:
    only_on = test.get_closest_marker("only_on")
    return only_on.args if only_on else RULES[_rule(test.path)]


@cache
def _rule(path: Path) -> str:
    within = f"{path.relative_to(HERE).as_posix()}/"
    return next(folder for folder in RULES if within.startswith(f"{folder}/"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if ONE_FOR_ALL or not PROCESS:
        _leave_out_those_of_the_other(config, items)
    order = {rule: place for place, rule in enumerate(RULES)}
    items.sort(key=lambda item: order[_rule(item.path)])


def _leave_out_those_of_the_other(config: pytest.Config, items: list[pytest.Item]) -> None:
    marks = {item: item.get_closest_marker("only_on") for item in items}
    others = [item for item, mark in marks.items() if mark and DATABASE not in mark.args]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Processes send their reports as UTF-8, which half a surrogate in a test's output is not."""
    report = yield
    report.sections = [(name, _as_utf8(text)) for name, text in report.sections]
    return report


def _as_utf8(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """With `-n auto` four more than there are processors, since tests of real processes wait most of their
    time; with `-n logical`, for tests that do not, as many."""
    processors = os.cpu_count() or 1
    return processors if config.option.numprocesses == "logical" else processors + 4


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return FilesByDatabase(config, log)


class FilesByDatabase(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out whole files, each to a process that has the database its tests want."""

    def _split_scope(self, nodeid: str) -> str:
        path, _, test = nodeid.partition("::")
        return f"{path} {match[1]}" if (match := ON.search(test)) else path

    def _assign_work_unit(self, node: Any) -> None:
        if scope := self._next_for(node):
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if self._next_for(node):
            super()._reschedule(node)
        elif not node.shutting_down:
            node.shutdown()

    def _next_for(self, node: Any) -> str | None:
        """The first file that is left for this process."""
        own = {"", database_of(node.gateway.id)} if not ONE_FOR_ALL else {"", *DATABASES}
        return next((s for s in self.workqueue if s.partition(" ")[2] in own), None)
