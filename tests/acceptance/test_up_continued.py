"""`manage.py up` that keeps serving; and one stopped at the budget, then by a person in the middle, then
started again: each run resumes where the one before stopped."""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests import pdf_builder
from tests.acceptance.up_runs import STEPS, Home, MakeHome, Run
from tests.fork_server import REPOSITORY, ForkServer
from tests.integration.pipeline.papers_fixtures import Site

AT_ONCE = 60
"""Seconds a stop may take while other tests keep the processors busy; alone it takes a few."""

TEXT = pdf_builder.text_content(
    "Gates in rivers hold the water back until somebody opens them again.",
    "We measured forty gates over nine years and found that most leak a little.",
)


def wait_until(what: str, true: Callable[[], object], run: Run, within: float = 180) -> None:
    deadline = time.monotonic() + within
    while not true():
        if time.monotonic() > deadline or not run.alive:
            raise AssertionError(f"never happened: {what}; {run.lines} {run.error_lines}")
        time.sleep(0.05)


@dataclass
class Stopped:
    """Three short papers, then a long one too, in one directory."""

    home: Home
    short: list[Path]
    at_the_budget: Run
    states_then: Counter[str]
    model: dict[str, str]

    @property
    def papers(self) -> list[Path]:
        return [*self.short, REPOSITORY / "samples" / "long.pdf"]


@pytest.fixture(scope="module")
def model() -> Iterator[dict[str, str]]:
    """The settings of a model that answers whatever is asked."""
    site = Site()
    answer = {"title": "T", "summary": "Gates leak.", "keywords": [], "contributions": []}
    site.answers = [json.dumps(answer)] * 99
    yield {
        "SLUICE_LLM_BASE_URL": f"{site.url}/v1", "SLUICE_LLM_MODEL": "m-1", "SLUICE_LLM_API_KEY": "sk-test",
    }  # fmt: skip
    site.close()


@pytest.fixture(scope="module")
def stopped(
    make_home: MakeHome,
    tmp_path_factory: pytest.TempPathFactory,
    fork_server: ForkServer,
    model: dict[str, str],
) -> Stopped:
    """After `up … --budget 3 --drain` of the three, each of which reserves two requests and sends one."""
    home, folder = make_home(), tmp_path_factory.mktemp("papers")
    pages = pdf_builder.document([TEXT])
    papers = [pdf_builder.written(folder, pages, f"{number}.PDF") for number in range(3)]
    run = home.up(folder, "--budget", "3", "--drain", server=fork_server, **model)
    run.wait(within=180)
    return Stopped(home, papers, run, home.states(), model)


@pytest.fixture(scope="module")
def interrupted(stopped: Stopped, fork_server: ForkServer) -> Run:
    """With a budget that is enough, stopped by Ctrl-C while the long paper is under way."""
    home, before = stopped.home, len(stopped.home.attempts())
    options = ("--budget", "99", "--drain", "--workers", "2")
    run = home.up(*stopped.papers, *options, server=fork_server, **stopped.model)
    wait_until("new papers", lambda: run.printed("^enqueued"), run)
    wait_until("a step done", lambda: len(home.attempts()) > before, run)
    run.interrupt()
    run.wait(within=AT_ONCE)
    return run


@pytest.fixture(scope="module")
def resumed(stopped: Stopped, interrupted: Run, fork_server: ForkServer) -> Run:
    """With nothing in its way, by another pool of workers."""
    options = ("--pool", "prefork", "--workers", "2", "--drain")
    run = stopped.home.up(*stopped.papers, *options, server=fork_server, **stopped.model)
    run.wait(within=180)
    return run


@dataclass
class Serving:
    """Without `--drain`, and its one paper done."""

    home: Home
    run: Run


@pytest.fixture(scope="module")
def serving(
    make_home: MakeHome, tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer
) -> Serving:
    home, folder = make_home(), tmp_path_factory.mktemp("paper")
    pdf_builder.written(folder, pdf_builder.document([TEXT]), "one.pdf")
    run = home.up(folder, "--pool", "prefork", "--workers", "2", server=fork_server)
    wait_until("done and serving", lambda: run.printed("Ctrl-C stops everything"), run)
    return Serving(home, run)


@pytest.mark.slow_proof
def test_up_stops_at_the_budget_with_4_and_reports_what_waits(stopped: Stopped) -> None:
    assert stopped.at_the_budget.code == 4
    assert stopped.at_the_budget.printed(r"^stopped: 1 wait: .*00:00 UTC")
    assert stopped.states_then == {"done": 2, "waiting": 1}


@pytest.mark.slow_proof
def test_ctrl_c_stops_everything_and_says_that_the_next_start_continues(
    stopped: Stopped, interrupted: Run
) -> None:
    assert (interrupted.code, interrupted.error_lines) == (130, [])
    assert interrupted.printed("^enqueued: 1 new, 3 already known")
    assert interrupted.printed("^stopped; the next start continues")
    assert stopped.home.left_running() == []
    assert stopped.home.states()["done"] < 4, "it was stopped in the middle"


@pytest.mark.slow_proof
def test_the_next_start_continues_from_there_and_redoes_nothing(stopped: Stopped, resumed: Run) -> None:
    assert resumed.printed("^enqueued: [01] new, [34] already known")
    assert stopped.home.states() == {"done": 4}
    attempts = stopped.home.attempts()
    done = Counter((key, step) for key, step, outcome in attempts if outcome == "done")
    assert set(done.values()) == {1} and len(done) == 4 * len(STEPS)
    assert {outcome for _, _, outcome in attempts} <= {"done", "interrupted"}


def test_up_keeps_serving_the_admin_and_flower_with_the_login_it_prints(serving: Serving) -> None:
    assert any("valkey" in name for name in serving.home.left_running()), "the broker can be seen"
    admin = serving.run.printed(r"^admin +(http://127\.0\.0\.1:\d+/admin/)  login (\S+) / (\S+)$")
    flower = serving.run.printed(r"^Flower +(http://127\.0\.0\.1:\d+/)  login flower / (\S+)$")
    assert admin and flower
    assert "Log in" in _page(admin[1])
    with pytest.raises(HTTPError, match="401"):
        _page(flower[1])
    with pytest.raises(HTTPError, match="401"):
        _page(flower[1], f"{admin[2]}:{admin[3]}")
    assert "Flower" in _page(flower[1], f"flower:{flower[2]}")


def _page(address: str, login: str = "") -> str:
    headers = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    with urlopen(Request(address, headers=headers if login else {}), timeout=30) as answer:
        return str(answer.read().decode())


def test_a_second_run_in_the_same_directory_is_refused_and_changes_nothing(
    serving: Serving, fork_server: ForkServer
) -> None:
    home, budget = serving.home, "SELECT daily_budget FROM queuemgr_limit WHERE name = 'fleet'"
    before = home.database.rows(budget)
    other = home.up("--drain", "--budget", "1", server=fork_server)
    assert other.code == 3
    (error,) = other.error_lines
    assert f"another run uses {home.directory}" in error
    assert before == home.database.rows(budget)


def test_ctrl_c_ends_a_serving_run_with_0_and_leaves_nothing_running(serving: Serving) -> None:
    serving.run.interrupt()
    assert (serving.run.code, serving.run.error_lines) == (0, [])
    assert serving.home.left_running() == []
