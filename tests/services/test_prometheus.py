"""A real Prometheus with the rules and the scrape configuration that are shipped."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from queuemgr.local.private_servers import free_port, wait_for_port
from queuemgr.web.metrics.counters import endings
from tests.acceptance.conftest import fleet, make_fleet, migrated
from tests.acceptance.fleet import Fleet
from tests.compose_file import ROOT

__all__ = ["fleet", "make_fleet", "migrated"]

SHIPPED = ROOT / "compose" / "prometheus"
RULES = SHIPPED / "alerts.yml"
FAILURES = 30
FAILED = ("prep", "normal", "failed", "not_found")

pytestmark = [
    pytest.mark.only_on("postgres", why="compose.yaml has PostgreSQL"),
    pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool here"),
]


def test_the_shipped_rules_are_valid() -> None:
    done = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("born_at_0", [True, False])
def test_the_first_30_failures_of_a_kind_fire_failures_spike(tmp_path: Path, born_at_0: bool) -> None:
    """If every series is there at 0 from the start, as it is: in one born at 30 no increase is seen."""
    series = [
        {"series": _selector(labels), "values": f"0x9 {FAILURES}x20" if labels == FAILED else "0x30"}
        for labels in endings(["prep"], ["not_found", "network"])
    ]
    if not born_at_0:
        series = [{"series": _selector(FAILED), "values": f"_x9 {FAILURES}x20"}]
    fires = [{"exp_labels": {"severity": "warning", "phase": "prep"}, "exp_annotations": _said("100%")}]
    expected = {"alertname": "FailuresSpike", "eval_time": "13m", "exp_alerts": fires if born_at_0 else []}
    _promtool(tmp_path, series, expected)


def _selector(labels: tuple[str, str, str, str]) -> str:
    names = ("phase", "priority", "outcome", "error_kind")
    pairs = ",".join(f'{name}="{value}"' for name, value in zip(names, labels, strict=True))
    return f"sluicegate_attempts_total{{{pairs}}}"


def _said(share: str) -> dict[str, str]:
    (rule,) = (
        r for r in yaml.safe_load(RULES.read_text())["groups"][0]["rules"] if r["alert"] == "FailuresSpike"
    )
    return {"summary": f"{share} of what ends in prep fails", "remedy": rule["annotations"]["remedy"]}


def _promtool(directory: Path, series: list[dict[str, str]], expected: dict[str, Any]) -> None:
    test = directory / "test.yml"
    tests = [{"interval": "1m", "input_series": series, "alert_rule_test": [expected]}]
    test.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(["promtool", "test", "rules", str(test)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def prometheus(fleet: Fleet, tmp_path: Path) -> Iterator[str]:
    """The address of a Prometheus that scrapes our web server, with what is shipped, each second."""
    web, port = free_port(), free_port()
    token = tmp_path / "token"
    token.write_text("only-for-this-test")
    config = yaml.safe_load((SHIPPED / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(RULES)]
    job["authorization"]["credentials_file"] = str(token)
    job["static_configs"] = [{"targets": [f"127.0.0.1:{web}"]}]
    job["scrape_timeout"] = "1s"
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    fleet.environment["SLUICE_METRICS_TOKEN"] = token.read_text()
    fleet.start("web", sys.executable, "-W", "ignore", "manage.py", "serve", "--port", str(web))
    wait_for_port(web)
    fleet.start(
        "prometheus", "prometheus", f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    )  # fmt: skip
    wait_for_port(port)
    yield f"http://127.0.0.1:{port}"


def test_a_real_prometheus_sees_the_first_failures_of_a_fleet(fleet: Fleet, prometheus: str) -> None:
    """30 failures of a kind that never was before; the alert fires a minute after it is pending."""
    fleet.wait_until("a scrape", lambda: value(prometheus, 'up{job="sluicegate"}') == 1)
    fleet.wait_until("zeros", lambda: value(prometheus, f"count({_selector(FAILED)})") == 1)
    fleet.start_worker(8)
    fleet.enqueue(FAILURES, phase="prep", fail="not_found")
    pending = 'count(ALERTS{alertname="FailuresSpike",phase="prep"})'
    fleet.wait_until("the alert", lambda: value(prometheus, pending) == 1)
    firing = 'ALERTS{alertname=~"MetricsAway|NoWorkers|LeasesNotReleased"}'
    assert value(prometheus, f"count({firing})") is None


def value(prometheus: str, query: str) -> float | None:
    """The first result of a query; None without one, or while Prometheus starts."""
    found = httpx.get(f"{prometheus}/api/v1/query", params={"query": query}, timeout=10)
    if found.status_code == 503:
        return None
    result = found.json()["data"]["result"]
    return float(result[0]["value"][1]) if result else None
