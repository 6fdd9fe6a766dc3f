"""`manage.py doctor`: what is wrong with an installation, and what to do about it."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from pipeline.config import pipeline_settings
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.flow import CheckResult, all_queues
from queuemgr.flows.outcomes import Done
from queuemgr.local import doctor
from queuemgr.local.checks import database
from queuemgr.models import Lease
from queuemgr.scheduling import limit_rows
from tests.integration.cli.commands import run
from tests.shell import Shell

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _a_fleet_with_limits_that_sends_nothing(sent: list[Any]) -> None:
    limit_rows.sync()


@pytest.fixture
def fresh_pipeline_settings() -> Iterator[None]:
    pipeline_settings.cache_clear()
    yield
    pipeline_settings.cache_clear()


OF_TESTS = "SQLite in journal mode memory"
"""The one problem doctor reports in these tests: their SQLite database is in memory."""


def findings() -> dict[str, list[str]]:
    """The results of `doctor --json` by level; the exit code says whether any was bad."""
    result = run("doctor", "--json")
    assert all(record.keys() == {"level", "what", "remedy"} for record in result.records)
    assert all(record["remedy"] for record in result.records if record["level"] != "good")
    by_level: dict[str, list[str]] = {"good": [], "note": [], "bad": []}
    for record in result.records:
        by_level[record["level"]].append(record["what"])
    assert result.code == bool(by_level["bad"])
    by_level["bad"] = [what for what in by_level["bad"] if what != OF_TESTS]
    return by_level


def test_doctor_reports_no_problem_for_a_working_installation(make_worker: Any) -> None:
    make_worker()
    found = findings()
    assert found["bad"] == []
    assert "all migrations are applied" in found["good"]
    assert "the database takes what a worker writes" in found["good"]
    assert any(what.startswith("broker redis://") and "passes messages" in what for what in found["good"])
    assert "1 workers alive, every queue consumed" in found["good"]


def test_doctor_prints_one_line_per_result_with_its_remedy() -> None:
    result = run("doctor")
    assert all(re.match(r"(ok  |note|BAD )  \S", line) for line in result.lines)
    assert "note  no worker is alive: start `manage.py up`, `queue run` or `worker`" in result.lines


def test_doctor_hides_the_brokers_password() -> None:
    assert os.environ["BROKER_URL"].split(":")[2].split("@")[0] not in run("doctor").out


def test_doctor_notes_queues_without_a_consumer_in_which_nothing_waits(make_worker: Any) -> None:
    make_worker(queues=[name for name in all_queues() if not name.startswith("wrap")])
    found = findings()
    assert found["bad"] == []
    assert "no live worker consumes wrap.high, wrap.normal, wrap.low; nothing waits there" in found["note"]


def test_doctor_fails_when_work_waits_that_no_live_worker_can_take(make_worker: Any, probes: Any) -> None:
    make_worker(queues=["prep.high"])
    probes(3)
    assert findings()["bad"] == ["no live worker consumes prep.normal, and 3 executions wait there"]


def test_doctor_reports_expired_leases(played: Any, probes: Any) -> None:
    worker = played(slots=1)
    probes(1)
    (grant,) = worker.begin_all()
    Lease.objects.update(expires_at=database_now() - timedelta(minutes=5))
    (bad,) = findings()["bad"]
    assert bad == "1 leases expired over a minute ago and still exist"
    worker.end(grant, Done())
    assert findings()["bad"] == []


def test_doctor_reports_missing_migrations() -> None:
    recorder = MigrationRecorder(connection)
    (newest,) = MigrationLoader(connection).graph.leaf_nodes("pipeline")
    recorder.record_unapplied(*newest)
    try:
        bad = findings()["bad"]
    finally:
        recorder.record_applied(*newest)
    assert bad == ["1 migrations are not applied"]


def test_doctor_reports_an_endpoint_without_a_model(
    monkeypatch: pytest.MonkeyPatch, fresh_pipeline_settings: None
) -> None:
    monkeypatch.setenv("SLUICE_LLM_BASE_URL", "http://127.0.0.1:1/v1")
    assert findings()["bad"] == ["SLUICE_LLM_BASE_URL is set without SLUICE_LLM_MODEL"]


def test_doctor_reports_a_mistyped_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_MAX_WORKER", "3")
    assert "SLUICE_MAX_WORKER is set, but there is no such setting" in findings()["note"]


@pytest.mark.parametrize(
    ("variable", "value", "what", "remedy"),
    [
        ("BROKER_URL", "redis://:pw@127.0.0.1:1/0", "does not answer", "start it, correct BROKER_URL"),
        ("BROKER_URL", "carrier-pigeon://x", "BROKER_URL cannot be used", "write redis://HOST"),
        ("DATABASE_URL", "postgres://x:pw@127.0.0.1:1/x", "the database: ", "start the server, or correct"),
    ],
)
def test_doctor_reports_unreachable_services_and_runs_the_other_checks(
    variable: str, value: str, what: str, remedy: str, tmp_path: Path, shell: Shell
) -> None:
    done = shell(tmp_path, "doctor", "--json", **{variable: value})
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr.count("Traceback")) == (1, 0)
    bad = [f"{f['what']}: {f['remedy']}" for f in found if f["level"] == "bad"]
    assert any(what in line and remedy in line for line in bad), bad
    assert "the local OCR engine is installed" in [f["what"] for f in found]
    assert ":pw@" not in done.stdout


def test_a_check_that_does_not_end_is_named_and_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs() -> Iterator[CheckResult]:
        yield CheckResult("note", "found before", "nothing")
        time.sleep(60)

    monkeypatch.setattr(doctor, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(doctor, "CHECKS", (doctor.Check(hangs), doctor.Check(database.answers)))
    found = [result.what for result in doctor.run_checks()]
    assert found[:2] == ["found before", "the check test_doctor.hangs still ran after 0.1 s"]
    assert len(found) > 2
