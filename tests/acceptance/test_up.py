"""What a newcomer sees: `manage.py up` turns papers into reports, says how it ended, and leaves no
process behind."""

from __future__ import annotations

import base64
import json
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest

from tests import pdf_builder
from tests.acceptance.databases import Database
from tests.acceptance.fleet import environment
from tests.acceptance.processes import Command, using
from tests.fork_server import REPOSITORY, ForkServer

SAMPLES = {
    # pages, references, how its report begins
    "author-year.pdf": ("5", "17", "Night Openings and Invertebrate Drift"),
    "cjk.pdf": ("2", "8", "小型闸门的双水位调度"),
    "long.pdf": ("60", "41", "Marrow Basin"),
    "scanned.pdf": ("2", "", "LOWLAND WEIR SOCIETY"),
    "two-column.pdf": ("6", "24", "Hysteresis Gates"),
}
TROUBLED = {
    "damaged.pdf": ("damaged", "The PDF is damaged and could not be opened"),
    "encrypted.pdf": ("encrypted", "The PDF requires a password"),
    "html-named.pdf": ("not_pdf", "an HTML page titled 'Sign in to continue"),
}
STEPS = ["resolve", "fetch", "extract", "analyse", "report"]
AT_ONCE = 60
"""Seconds a stop may take while other tests keep the processors busy; alone it takes a few."""

TEXT = pdf_builder.text_content(
    "Gates in rivers hold the water back until somebody opens them again.",
    "We measured forty gates over nine years and found that most leak a little.",
)


class Run(Command):
    """One `manage.py up …` without a terminal, under way or ended, and what it has printed so far."""

    @property
    def lines(self) -> list[str]:
        return self.output.splitlines()

    @property
    def error_lines(self) -> list[str]:
        return self.errors.splitlines()

    @property
    def code(self) -> int:
        """The exit code, once it has ended."""
        return self.wait(within=180)

    @property
    def table(self) -> dict[str, list[str]]:
        """The cells of the table of results, by document."""
        lines = self.lines
        head = next(n for n, line in enumerate(lines) if line.startswith("document "))
        starts = [match.start() for match in re.finditer(r"\S+", lines[head])]
        rows = {}
        for line in lines[head + 1 :]:
            cells = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
            if not cells[0].endswith(".pdf"):
                break
            rows[cells[0]] = cells[1:]
        return rows

    def printed(self, pattern: str) -> re.Match[str] | None:
        """The first line that holds this pattern."""
        return next(filter(None, (re.search(pattern, line) for line in self.lines)), None)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.signal(signal.SIGINT)


@dataclass
class Home:
    """One data directory and its database, for any number of runs."""

    directory: Path
    database: Database
    runs: list[Run] = field(default_factory=list)

    def up(self, *arguments: object, server: ForkServer | None = None, **variables: str) -> Run:
        environ = {**environment(self.directory, self.database), **variables}
        environ.pop("PYTHONUNBUFFERED", None)
        command = (sys.executable, "manage.py", "up", *map(str, arguments))
        name = f"up-{len(self.runs) + 1}"
        self.runs.append(Run(name, command, environ, self.directory, server))
        return self.runs[-1]

    def attempts(self) -> list[tuple[str, str, str]]:
        """Key, step and outcome of each, in order."""
        return self.database.rows(
            "SELECT e.key, a.step, a.outcome FROM queuemgr_attempt a "
            "JOIN queuemgr_execution e ON e.id = a.execution_id ORDER BY a.id"
        )

    def states(self) -> Counter[str]:
        return Counter(s for (s,) in self.database.rows("SELECT state FROM queuemgr_execution"))

    def left_running(self) -> list[str]:
        """Programs still there that keep their state in this directory."""
        return [program.name() for program in self._programs()]

    def _programs(self) -> Iterator[psutil.Process]:
        """By their environment; the broker, which overwrites its own, by its directory."""
        yield from using(self.directory, {run.pid for run in self.runs})
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if Path(process.cwd()) == self.directory / "redis":
                    yield process

    def close(self) -> None:
        """Kill what a failed test left running, and what is started in its place meanwhile."""
        while left := list(self._programs()):
            for program in left:
                with suppress(psutil.Error):
                    program.kill()
            time.sleep(0.1)
        for run in self.runs:
            run.wait(within=60)
        self.database.drop()


MakeHome = Callable[[], Home]


@pytest.fixture(scope="module")
def make_home(tmp_path_factory: pytest.TempPathFactory, migrated: Database) -> Iterator[MakeHome]:
    made: list[Home] = []
    numbers = count(1)

    def make() -> Home:
        directory = tmp_path_factory.mktemp(f"home-{next(numbers)}")
        made.append(Home(directory, migrated.copy(directory)))
        return made[-1]

    yield make
    for home in made:
        home.close()


def wait_until(what: str, true: Callable[[], object], run: Run, within: float = 180) -> None:
    deadline = time.monotonic() + within
    while not true():
        if time.monotonic() > deadline or not run.alive:
            raise AssertionError(f"never happened: {what}; {run.lines} {run.error_lines}")
        time.sleep(0.05)


# What cannot run at all


@pytest.mark.parametrize(
    ("arguments", "variables", "error"),
    [
        (["samples/none.pdf"], {}, "there is no file or folder samples/none.pdf"),
        (["tests/acceptance"], {}, "folder tests/acceptance contains no .pdf file"),
        (["--max-workers", "none"], {}, "SLUICE_MAX_WORKERS='none'"),
        ([], {"BROKER_URL": "redis://127.0.0.1:1/0"}, "127.0.0.1:1/0 does not answer"),
        ([], {"DATABASE_URL": "postgres://x@127.0.0.1:1/x"}, "the database does not answer"),
    ],
    ids=["no such file", "no pdf in the folder", "bad setting", "no broker", "no database"],
)
def test_a_run_that_cannot_start_exits_with_3_and_one_line_that_says_why(
    arguments: list[str], variables: dict[str, str], error: str, make_home: MakeHome, fork_server: ForkServer
) -> None:
    home = make_home()
    run = home.up(*arguments, "--drain", server=fork_server, **variables)
    assert run.code == 3
    (line,) = run.error_lines
    assert line.startswith("CommandError: could not run: ") and error in line
    assert run.lines == []
    assert home.states() == {}


# Stopped at the budget, then by a person in the middle, then started to keep serving: each run resumes
# where the one before stopped.


@dataclass
class Stopped:
    """Three short papers, then a long one too, in one directory."""

    home: Home
    short: list[Path]
    at_the_budget: Run
    states_then: Counter[str]

    @property
    def papers(self) -> list[Path]:
        return [*self.short, REPOSITORY / "samples" / "long.pdf"]


@pytest.fixture(scope="module")
def stopped(
    make_home: MakeHome, tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer
) -> Stopped:
    """After `up … --budget 2 --drain` of the three."""
    home, folder = make_home(), tmp_path_factory.mktemp("papers")
    pages = pdf_builder.document([TEXT])
    papers = [pdf_builder.written(folder, pages, f"{number}.PDF") for number in range(3)]
    run = home.up(folder, "--budget", "2", "--drain", server=fork_server)
    run.wait(within=180)
    return Stopped(home, papers, run, home.states())


@pytest.fixture(scope="module")
def interrupted(stopped: Stopped, fork_server: ForkServer) -> Run:
    """With a budget that is enough, stopped by Ctrl-C while the long paper is under way."""
    home, before = stopped.home, len(stopped.home.attempts())
    options = ("--budget", "9", "--drain", "--workers", "2")
    run = home.up(*stopped.papers, *options, server=fork_server)
    wait_until("new papers", lambda: run.printed("^enqueued"), run)
    wait_until("a step done", lambda: len(home.attempts()) > before, run)
    run.interrupt()
    run.wait(within=AT_ONCE)
    return run


@pytest.fixture(scope="module")
def serving(stopped: Stopped, interrupted: Run, fork_server: ForkServer) -> Run:
    """Without `--drain`, and everything done; another pool of workers."""
    options = ("--pool", "prefork", "--workers", "2")
    run = stopped.home.up(*stopped.papers, *options, server=fork_server)
    wait_until("done and serving", lambda: run.printed("Ctrl-C stops everything"), run)
    return run


def test_up_stops_at_the_budget_with_4_and_reports_what_waits(stopped: Stopped) -> None:
    assert stopped.at_the_budget.code == 4
    assert stopped.at_the_budget.printed(r"^stopped: 1 wait: .*budget.* 2.*00:00 UTC")
    assert stopped.states_then == {"done": 2, "waiting": 1}


def test_ctrl_c_stops_everything_and_says_that_the_next_start_continues(
    stopped: Stopped, interrupted: Run
) -> None:
    assert (interrupted.code, interrupted.error_lines) == (130, [])
    assert interrupted.printed("^enqueued: 1 new, 3 already known")
    assert interrupted.printed("^stopped; the next start continues")
    assert stopped.home.left_running() == []
    assert stopped.home.states()["done"] < 4, "it was stopped in the middle"


def test_the_next_start_continues_from_there_and_redoes_nothing(stopped: Stopped, serving: Run) -> None:
    assert serving.printed("^enqueued: 0 new, 4 already known")
    assert stopped.home.states() == {"done": 4}
    attempts = stopped.home.attempts()
    done = Counter((key, step) for key, step, outcome in attempts if outcome == "done")
    assert set(done.values()) == {1} and len(done) == 4 * len(STEPS)
    assert {outcome for _, _, outcome in attempts} <= {"done", "interrupted"}


def test_up_keeps_serving_the_admin_and_flower_with_the_login_it_prints(
    stopped: Stopped, serving: Run
) -> None:
    assert any("valkey" in name for name in stopped.home.left_running()), "the broker can be seen"
    admin = serving.printed(r"^admin +(http://127\.0\.0\.1:\d+/admin/)  login (\S+) / (\S+)$")
    flower = serving.printed(r"^Flower +(http://127\.0\.0\.1:\d+/)  same login$")
    assert admin and flower
    assert "Log in" in _page(admin[1])
    with pytest.raises(HTTPError, match="401"):
        _page(flower[1])
    with pytest.raises(HTTPError, match="401"):
        _page(flower[1], f"{admin[2]}:not-{admin[3]}")
    assert "Flower" in _page(flower[1], f"{admin[2]}:{admin[3]}")


def _page(address: str, login: str = "") -> str:
    headers = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    with urlopen(Request(address, headers=headers if login else {}), timeout=30) as answer:
        return str(answer.read().decode())


def test_a_second_run_in_the_same_directory_is_refused_and_changes_nothing(
    stopped: Stopped, serving: Run, fork_server: ForkServer
) -> None:
    home, budget = stopped.home, "SELECT daily_budget FROM queuemgr_limit WHERE name = 'fleet'"
    before = home.database.rows(budget)
    other = home.up("--drain", "--budget", "1", server=fork_server)
    assert other.code == 3
    (error,) = other.error_lines
    assert f"another run uses {home.directory}" in error
    assert before == home.database.rows(budget)


def test_ctrl_c_ends_a_serving_run_with_0_and_leaves_nothing_running(stopped: Stopped, serving: Run) -> None:
    serving.interrupt()
    assert (serving.code, serving.error_lines) == (0, [])
    assert stopped.home.left_running() == []


# The samples


@pytest.fixture(scope="module")
def home(make_home: MakeHome) -> Home:
    return make_home()


@pytest.fixture(scope="module")
def finished(home: Home) -> Run:
    """`up samples --drain`, ended."""
    run = home.up("samples", "--drain")
    run.wait(within=180)
    return run


@pytest.fixture(scope="module")
def attempts_of_the_first(home: Home, finished: Run) -> list[tuple[str, str, str]]:
    return home.attempts()


@pytest.fixture(scope="module")
def again(home: Home, attempts_of_the_first: Any) -> Run:
    """A second run in the same directory, with the same papers and the faulty ones."""
    run = home.up("samples", "samples/troubled", "--drain")
    run.wait(within=180)
    return run


def test_up_processes_the_samples_and_exits_with_0(home: Home, finished: Run) -> None:
    assert (finished.code, finished.error_lines) == (0, [])
    assert home.states() == {"done": len(SAMPLES)}
    assert finished.printed("^enqueued: 5 new, 0 already known$")


def test_without_a_terminal_progress_is_plain_lines_up_to_the_end(finished: Run) -> None:
    assert not any("\x1b" in line or "\r" in line for line in finished.lines)
    progress = [line for line in finished.lines if re.fullmatch(r"(\w+ \d+ *)+", line)]
    assert len(progress) > 2
    assert "done 5" in progress


@pytest.mark.parametrize("name", SAMPLES)
def test_each_document_has_a_line_of_its_own_in_the_table(name: str, finished: Run) -> None:
    pages, references, _ = SAMPLES[name]
    *counts, seconds, status, _report = finished.table[name]
    assert (counts, status) == ([pages, references, "1"], "done")
    assert 0 < float(seconds) < 120


@pytest.mark.parametrize("name", SAMPLES)
def test_each_report_is_at_the_path_in_the_table_and_contains_the_title(name: str, finished: Run) -> None:
    pages, references, title = SAMPLES[name]
    report = REPOSITORY / finished.table[name][-1]
    assert report.read_text().startswith(f"# {title}")
    facts = json.loads(report.with_suffix(".json").read_text())
    assert facts["title"].startswith(title)
    assert facts["pages"]["total"] == int(pages)
    assert facts["references"]["count"] == (int(references) if references else None)
    assert (facts["partial"], facts["extractive"]) == (False, True)


def test_the_scan_was_read_by_ocr_and_nothing_else_was(home: Home, finished: Run) -> None:
    recognised = [Path(key).name for key, step, _ in home.attempts() if step == "ocr"]
    assert recognised == ["scanned.pdf"]
    (text,) = (home.directory / "files" / "text").glob("scanned*")
    assert "read the wet mark and not the water" in " ".join(text.read_text().split())


def test_every_step_ran_once(finished: Run, attempts_of_the_first: Any) -> None:
    assert len(attempts_of_the_first) == len(SAMPLES) * len(STEPS) + 1
    assert len(set(attempts_of_the_first)) == len(attempts_of_the_first)
    assert {outcome for _, _, outcome in attempts_of_the_first} == {"done"}
    assert finished.printed("^prep 16  expensive 5  wrap 5  resumed 0  errors 0$")


def test_after_the_drain_every_process_is_gone(home: Home, finished: Run) -> None:
    assert home.left_running() == []


def test_a_second_run_redoes_nothing(
    home: Home, again: Run, attempts_of_the_first: list[tuple[str, str, str]]
) -> None:
    assert again.printed("^enqueued: 3 new, 5 already known$")
    of_samples = [row for row in home.attempts() if Path(row[0]).name in SAMPLES]
    assert of_samples == attempts_of_the_first
    assert again.table.keys() == SAMPLES.keys() | TROUBLED.keys()


# The troubled


def test_up_exits_with_2_when_something_failed(home: Home, again: Run) -> None:
    assert (again.code, again.error_lines) == (2, [])
    assert home.states() == {"done": len(SAMPLES), "failed": len(TROUBLED)}


@pytest.mark.parametrize("name", TROUBLED)
def test_each_failed_document_is_named_with_a_sentence_that_explains_the_failure(
    name: str, again: Run
) -> None:
    kind, sentence = TROUBLED[name]
    assert again.printed(rf"^failed: file:\S+/{name}: {kind}: .*{re.escape(sentence)}")
    assert again.table[name][-2:] == ["failed", ""]


def test_no_log_holds_a_traceback_or_an_error(home: Home, again: Run) -> None:
    logs = {path.name: path.read_text() for path in (home.directory / "log").glob("*.log")}
    assert {"worker.log", "beat.log", "housekeeping.log", "web.log", "flower.log"} <= logs.keys()
    for name, text in logs.items():
        assert not re.search(r"Traceback| ERROR | CRITICAL |Warning: No directory", text), name
