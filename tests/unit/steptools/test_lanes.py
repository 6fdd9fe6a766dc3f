"""Lanes: each setting's value, its source, and the rule that computed it."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from queuemgr.base import process_state
from queuemgr.base.config import LaneSettings
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.settings_group import COMMAND_LINE
from queuemgr.steptools import machine
from queuemgr.steptools.lanes import GIB, MIN_PENDING, Lane, Lanes, banner, compute_lanes
from queuemgr.steptools.machine import Machine
from queuemgr.steptools.process_lanes import lanes

BIG = Machine(cpus=64, memory_bytes=256 * GIB)


@pytest.fixture(autouse=True)
def _no_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMAND_LINE, "{}")


def of(machine_: Machine = BIG, **values: Any) -> Lanes:
    given = LaneSettings(**values)
    return compute_lanes(
        given.model_dump(), lambda name: "settings" if name in values else "default", machine_
    )


def setting(found: Lanes, name: str) -> tuple[int, str, str]:
    one = next(one for one in found.settings if one.name == name)
    return one.value, one.source, one.rule


def test_io_files_and_imports_are_clamped_to_four_times_the_io_threads():
    found = of(threads=64, io_concurrency=64, io_threads=4)
    for name in ("io_concurrency", "file_concurrency", "import_concurrency"):
        assert found.value(name) == 16
    assert setting(found, "file_concurrency") == (
        16, "settings", "64 configured, min(64, 4 x 4 io threads, 64 for 256.0 GiB)",
    )  # fmt: skip


@pytest.mark.parametrize(("gib", "cap"), [(1, 16), (15.9, 16), (16, 32), (31.9, 32), (32, 64), (999, 64)])
def test_memory_caps_io_concurrency(gib: float, cap: int):
    assert of(Machine(64, int(gib * GIB))).lane("io").concurrency == cap


def test_oversubscribing_lifts_the_clamp_up_to_64():
    small = Machine(2, 8 * GIB)
    found = of(small, threads=64, io_concurrency=500, io_threads=4, io_oversubscribe=True)
    assert (found.lane("io").concurrency, found.value("file_concurrency")) == (64, 64)


@pytest.mark.parametrize(
    ("cpus", "configured", "expected"), [(1, 0, 1), (3, 0, 3), (64, 0, 4), (64, 6, 6), (2, 99, 8)]
)
def test_child_programs_are_four_at_most_by_default_and_eight_at_most_when_configured(
    cpus: int, configured: int, expected: int
):
    assert of(Machine(cpus, GIB), proc_concurrency=configured).lane("proc").concurrency == expected


def test_model_runs_share_the_processors_by_the_threads_of_each():
    assert of(Machine(8, GIB), model_threads=3).lane("embedding").concurrency == 2
    assert of(Machine(2, GIB), model_threads=3).lane("embedding").concurrency == 1


def test_four_times_what_runs_may_be_pending_and_never_less_than_the_minimum():
    found = of(Machine(2, GIB), io_concurrency=1, proc_concurrency=3)
    pending = [lane.max_pending for lane in map(found.lane, MIN_PENDING)]
    assert pending == [8, 16, 16, 12]
    assert of(Machine(16, 64 * GIB)).lane("cpu").max_pending == 64


def test_a_value_taken_from_another_setting_names_it_and_has_its_source():
    found = of(threads=7)
    assert setting(found, "import_concurrency") == (7, "settings", "threads")
    assert setting(found, "cpu_concurrency")[1] == "default"


def test_the_command_line_wins_over_settings_these_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, settings: Any
):
    monkeypatch.setenv("SLUICE_CPU_CONCURRENCY", "5")
    assert setting(lanes(), "cpu_concurrency") == (5, "environment", "")
    settings.SLUICE_CPU_CONCURRENCY = 6
    process_state.reset_all()
    assert setting(lanes(), "cpu_concurrency") == (6, "settings", "")
    out = StringIO()
    call_command("worker", "--explain", "--json", "--cpu-concurrency", "7", stdout=out)
    rows = {row["name"]: row for row in json.loads(out.getvalue())}
    assert rows["cpu_concurrency"] == {
        "name": "cpu_concurrency", "value": 7, "source": "command line", "rule": "",
    }  # fmt: skip


def test_the_lanes_of_a_process_are_computed_once():
    assert lanes() is lanes()


def test_worker_explain_shows_every_setting_with_its_source_and_rule_and_starts_nothing():
    out = StringIO()
    call_command("worker", "--explain", "--slots", "3", stdout=out)
    lines = {line.split()[0]: line for line in out.getvalue().splitlines()}
    assert lines["slots"].split() == ["slots", "3", "command", "line"]
    assert "io threads" in lines["io_concurrency"]
    assert set(lines) == {"setting", *(one.name for one in lanes().settings)}


def test_the_banner_has_a_line_for_every_setting():
    found = of(threads=2)
    assert [line.split()[0] for line in banner(found.settings).splitlines()] == [
        one.name for one in found.settings
    ]


def test_a_lane_without_capacity_is_refused_by_name():
    with pytest.raises(ConfigurationError, match="lane ocr: max_pending is 0"):
        Lane("ocr", 1, 0)


def group(root: Path, **files: str) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)
    return root


def listed(tmp_path: Path, text: str) -> Path:
    listing = tmp_path / "listing"
    listing.write_text(text)
    return listing


def test_the_limits_of_a_container_count_and_not_the_hardware_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root = tmp_path / "cgroup"
    group(root / "box", memory__max="1073741824", cpu__max="50000 100000")
    group(root / "box/inner", memory__max="max", cpu__max="max 100000")
    monkeypatch.setattr(machine, "ROOT", root)
    monkeypatch.setattr(machine, "SELF", listed(tmp_path, "0::/box/inner\n"))
    assert machine.this_machine() == Machine(cpus=1, memory_bytes=GIB)


def test_control_groups_of_version_1_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = tmp_path / "cgroup"
    group(root / "memory/box", memory__limit_in_bytes="2147483648")
    group(root / "cpu,cpuacct", cpu__cfs_quota_us="10000", cpu__cfs_period_us="100000")
    text = "4:memory:/box\n1:cpu,cpuacct:/not/seen/from/inside\n"
    monkeypatch.setattr(machine, "ROOT", root)
    monkeypatch.setattr(machine, "SELF", listed(tmp_path, text))
    assert machine.this_machine() == Machine(cpus=1, memory_bytes=2 * GIB)


def test_without_control_groups_the_hardware_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    monkeypatch.setattr(machine, "SELF", tmp_path / "none")
    found = machine.this_machine()
    assert found.cpus >= 1
    assert found.memory_bytes > GIB / 4
