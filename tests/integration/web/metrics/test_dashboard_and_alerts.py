"""The dashboard and the alerts ask for metrics that are really there, by labels they really have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
import yaml

from queuemgr import NEVER, Work
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.outcomes import Failed
from queuemgr.lifecycle import minute_stats
from queuemgr.models import Execution, PeriodicJob
from queuemgr.operations import controls
from queuemgr.operations.controls import Actor
from queuemgr.web.metrics.definitions import DECLARED
from tests.compose_file import ROOT, services
from tests.integration.web.metrics.scraping import scrape

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("static_root")]
COMPOSE = ROOT / "compose"
ALERTS = yaml.safe_load((COMPOSE / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((COMPOSE / "grafana" / "dashboards" / "sluicegate.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGETS = [target for panel in PANELS for target in panel["targets"]]
EXPRESSIONS = [rule["expr"] for rule in ALERTS] + [target["expr"] for target in TARGETS]

FUNCTIONS = {"histogram_quantile", "increase", "max", "rate", "sum", "time"}
WORDS = {"and", "by", "group_left", "on", "unless"}
TOKEN = re.compile(
    r"""\s+|(?P<selector>[a-z_]\w*\{[^}]*\})|(?P<word>[a-z_]\w*)|(?P<range>\[\d+[smhd]\])
    |(?P<number>\d+(\.\d+)?)|(?P<operator>==|!=|>=|<=|[-+*/><])|(?P<open>\()|(?P<close>\))|(?P<comma>,)""",
    re.VERBOSE,
)


def tokens(expression: str) -> Iterator[tuple[str, str]]:
    """The parts of an expression; fails on anything that is none."""
    at = 0
    while at < len(expression):
        found = TOKEN.match(expression, at)
        assert found, f"cannot read {expression[at : at + 20]!r} in {expression!r}"
        at = found.end()
        if found.lastgroup:
            yield found.lastgroup, found[0]


def metrics_in(expression: str) -> dict[str, set[str]]:
    """The metrics an expression uses, and the labels it selects them by."""
    used: dict[str, set[str]] = {}
    for kind, text in tokens(expression):
        name, _, picks = text.partition("{")
        if kind in ("selector", "word") and (name.startswith("sluicegate_") or name == "up"):
            used.setdefault(name, set()).update(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)"', picks))
    return used


def grouped_by(expression: str) -> set[str]:
    named = re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)", expression)
    return {label.strip() for labels in named for label in labels.split(",") if label.strip()}


@pytest.fixture
def scraped(played: Callable[..., Any], probes: Callable[..., list[Execution]]) -> dict[str, set[str]]:
    """Each name a busy fleet's scrape has, with the labels of its series."""
    controls.edit_limit("fleet", Actor("ann", "test"), allowances="20 usd/day")
    controls.edit_limit("openai:gpt", Actor("ann", "test"), new=True, max_running=9)
    worker = played(slots=2)
    probes(4, requests=1)
    one, other = worker.begin_all()
    Work(one, NEVER).observe({"x-ratelimit-remaining": "7"}, limit="openai:gpt")
    worker.end(one)
    worker.end(other, Failed("network", "refused"))
    PeriodicJob.objects.create(name="tick", ran_at=database_now())
    minute_stats.roll_up(database_now() + timedelta(minutes=2))
    found: dict[str, set[str]] = {"up": {"job"}}
    for name, labels in scrape().samples:
        found.setdefault(name, set()).update(label for label, _ in labels)
    return found


def test_every_metric_and_label_used_is_in_a_scrape(scraped: dict[str, set[str]]) -> None:
    for expression in EXPRESSIONS:
        used = metrics_in(expression)
        assert used or expression == "time()", expression
        for name, labels in used.items():
            assert name in scraped, f"{name} in {expression}"
            assert labels <= scraped[name], f"{labels} of {name} in {expression}"
        known = set[str]().union(*(scraped[name] for name in used))
        assert grouped_by(expression) <= known, expression


def test_every_metric_is_in_a_panel_or_an_alert(scraped: dict[str, set[str]]) -> None:
    """What nobody looks at need not be read at each scrape."""
    used = {name.removesuffix("_bucket") for e in EXPRESSIONS for name in metrics_in(e)}
    unused = {metric.name for metric in DECLARED} - used
    assert unused == {"sluicegate_build_info", "sluicegate_queue_due"} - used
    assert {metric.name for metric in DECLARED} - {n.removesuffix("_bucket") for n in scraped} == set()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_can_be_parsed(expression: str) -> None:
    depth, parts = 0, list(tokens(expression))
    for kind, text in parts:
        depth += (kind == "open") - (kind == "close")
        assert depth >= 0
        known = FUNCTIONS | WORDS | {"up", "queue", "phase", "priority", "limit", "outcome"}
        known |= {"error_kind", "periodic_job", "le", "allowance", "meter"}
        assert kind != "word" or text.startswith("sluicegate_") or text in known, text
    assert depth == 0
    for (kind, text), (after, _) in pairwise([*parts, ("end", "")]):
        assert text not in FUNCTIONS or after in ("open", "word"), expression
        assert kind != "operator" or after in ("open", "word", "number", "selector"), expression
    assert all("_total" in name or "_bucket" in name for name in _ranged(expression)), expression


def _ranged(expression: str) -> list[str]:
    """What rates and increases are taken of."""
    return re.findall(r"(\w+)(?:\{[^}]*\})?\[\d+", expression)


def test_counters_are_used_with_rate_or_increase_and_gauges_directly() -> None:
    counters = {metric.name for metric in DECLARED if metric.kind == "counter"}
    for expression in EXPRESSIONS:
        grown = set(_ranged(expression))
        assert {name for name in metrics_in(expression) if name in counters} <= grown, expression


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_what_a_rule_counts_is_at_0_in_the_first_scrape_of_an_empty_database(rule: dict[str, Any]) -> None:
    """An increase is seen from the first event on only if the series was there before it."""
    first = scrape()
    for name, picks in re.findall(r"(\w+)(?:\{([^}]*)\})?\[\d+", rule["expr"]):
        assert first.has(name), name
        for label, values in re.findall(r'(\w+)=~?"([^"]*)"', picks):
            for value in values.split("|"):
                series = [
                    v for (n, labels), v in first.samples.items() if n == name and (label, value) in labels
                ]
                assert series, f"{name}{{{label}={value}}}"
                assert set(series) == {0}


def test_legends_name_labels_their_expression_keeps() -> None:
    for target in TARGETS:
        kept = grouped_by(target["expr"])
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept, target["expr"]


def test_alerts_are_named_once_and_say_what_to_do() -> None:
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS)
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["remedy"]
        used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert used <= grouped_by(rule["expr"])


def test_panels_have_distinct_titles_descriptions_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        columns = range(grid["x"], grid["x"] + grid["w"])
        cells = {(x, y) for x in columns for y in range(grid["y"], grid["y"] + grid["h"])}
        assert not cells & taken, panel["title"]
        assert max(columns) < 24
        taken |= cells
    assert all(panel["description"] and panel["title"] for panel in PANELS)
    assert all(target["datasource"]["uid"] == "${datasource}" for target in TARGETS)


def test_prometheus_scrapes_the_address_of_the_web_service() -> None:
    config = yaml.safe_load((COMPOSE / "prometheus" / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["web:8000"]}]
    assert job["job_name"] == "sluicegate"
    assert config["rule_files"] == ["alerts.yml"]
    assert "web" in services()["web"]["environment"]["SLUICE_ALLOWED_HOSTS"].split(",")
    (script,) = services()["prometheus"]["command"]
    assert f"> {job['authorization']['credentials_file']}\n" in script
    assert "SLUICE_METRICS_TOKEN" in services()["prometheus"]["environment"]
    provided = COMPOSE / "grafana" / "provisioning"
    source = yaml.safe_load((provided / "datasources" / "prometheus.yml").read_text())
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
    boards = yaml.safe_load((provided / "dashboards" / "sluicegate.yml").read_text())
    mounted = [volume.split(":")[1] for volume in services()["grafana"]["volumes"]]
    assert boards["providers"][0]["options"]["path"] in mounted


def test_the_page_of_metrics_lists_what_the_code_declares() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = [
        f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.help} |"
        for m in DECLARED
    ]
    table = "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])
    assert table in page, f"put this into docs/metrics.md:\n{table}"
    assert {rule["alert"] for rule in ALERTS} <= set(re.findall(r"`(\w+)`", page))
