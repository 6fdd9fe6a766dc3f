"""A pytest plugin that says what a run cost: processor seconds in all, and those of the ten most expensive
modules and tests.

Seconds of the processor and not of the clock, so that two runs can be compared though the machine did
other things meanwhile. The servers and programs a test starts count as its own.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from heapq import nlargest
from pathlib import Path
from typing import Any

import pytest

SHOWN = int(os.environ.get("CPU_REPORT", 10))
TICKS = os.sysconf("SC_CLK_TCK")
_tests: dict[str, float] = {}
_processes: dict[str, float] = {}


def cpu_seconds() -> float:
    """Processor seconds this process has used until now, with its children's and theirs: those that
    have ended, and those direct children that run."""
    return sum(os.times()[:4]) + sum(map(_of_child, _children()))


def _children() -> list[str]:
    return [child for thread in Path("/proc/self/task").iterdir() for child in _of_thread(thread)]


def _of_thread(thread: Path) -> list[str]:
    try:
        return (thread / "children").read_text().split()
    except OSError:
        return []  # it has just ended


def _of_child(pid: str) -> float:
    """Of a running child, and of its own children that have ended."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0  # it has just ended
    return sum(map(int, after_name[11:15])) / TICKS


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[BEGAN] = cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if call.when == "teardown":
        item.user_properties.append(("cpu_seconds", cpu_seconds() - item.stash[BEGAN]))
    return (yield)


BEGAN = pytest.StashKey[float]()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        _tests[report.nodeid] = dict(report.user_properties)["cpu_seconds"]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["cpu_seconds"] = cpu_seconds()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", {})  # one that crashed has none
    _processes[node.gateway.id] = output.get("cpu_seconds", 0.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    _processes["this process"] = sum(os.times()[:2]) if _processes else cpu_seconds()
    parts = ", ".join(f"{name} {seconds:.0f}" for name, seconds in sorted(_processes.items()))
    terminalreporter.section("processor seconds")
    terminalreporter.line(f"{sum(_processes.values()):.0f} s in all ({parts})")
    modules: defaultdict[str, float] = defaultdict(float)
    for test, seconds in _tests.items():
        modules[test.partition("::")[0]] += seconds
    for costs in (dict(modules), _tests):
        for name in nlargest(SHOWN, costs, key=costs.__getitem__):
            terminalreporter.line(f"{costs[name]:6.1f} s  {name}")
