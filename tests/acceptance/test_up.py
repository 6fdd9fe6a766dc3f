"""What a newcomer sees: `manage.py up` turns papers into reports, says how it ended, and leaves no
process behind."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.up_runs import STEPS, Home, MakeHome, Run
from tests.fork_server import REPOSITORY, ForkServer

SAMPLES = {
    # pages, references, how its report begins
    "author-year.pdf": ("5", "17", "Night Openings and Invertebrate Drift"),
    "cjk.pdf": ("2", "8", "小型闸门的双水位调度"),
    "long.pdf": ("60", "41", "The Marrow Basin Gate Survey"),
    "scanned.pdf": ("2", "", "On Reading a Stage Board in Poor Light"),
    "two-column.pdf": ("6", "24", "Hysteresis Gates"),
}
TROUBLED = {
    "damaged.pdf": ("damaged", "The PDF is damaged and could not be opened"),
    "encrypted.pdf": ("encrypted", "The PDF requires a password"),
    "html-named.pdf": ("not_pdf", "html-named.pdf is an HTML page, not a PDF"),
}


# What cannot run at all


@pytest.mark.parametrize(
    ("arguments", "variables", "error"),
    [
        (["samples/none.pdf"], {}, "there is no file or folder samples/none.pdf"),
        (["tests/acceptance"], {}, "folder tests/acceptance contains no .pdf file"),
        (["--max-workers", "none"], {}, "SLUICE_MAX_WORKERS='none'"),
        ([], {"BROKER_URL": "redis://127.0.0.1:1/0"}, "127.0.0.1:1/0 does not answer"),
        ([], {"DATABASE_URL": "postgres://x@127.0.0.1:1/x"}, "port 1 failed: Connection refused"),
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
    assert not run.printed("^(?!preparing |starting |stopping)"), "nothing but what was under way"
    assert home.states() == {}


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


def test_it_says_what_it_does_before_it_is_ready_and_while_it_stops(finished: Run) -> None:
    assert finished.lines[0] == "preparing the database"
    starts = finished.printed("^starting redis, worker, housekeeping, beat, web, flower$")
    assert starts is not None and finished.printed("^stopping$")


def test_without_a_terminal_progress_is_plain_lines_up_to_the_end(finished: Run) -> None:
    assert not any("\x1b" in line or "\r" in line for line in finished.lines)
    progress = [line for line in finished.lines if re.fullmatch(r"(\w+ \d+ *)+", line)]
    assert len(progress) > 2
    assert "done 5" in progress


@pytest.mark.parametrize("name", SAMPLES)
def test_each_document_has_a_line_of_its_own_in_the_table(name: str, finished: Run) -> None:
    pages, references, _ = SAMPLES[name]
    *counts, seconds, status, _report = finished.table[name]
    assert (counts, status) == ([pages, references, "0"], "done"), "without a model no request is charged"
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


@pytest.mark.slow_proof
def test_a_second_run_redoes_nothing(
    home: Home, again: Run, attempts_of_the_first: list[tuple[str, str, str]]
) -> None:
    assert again.printed("^enqueued: 3 new, 5 already known$")
    of_samples = [row for row in home.attempts() if Path(row[0]).name in SAMPLES]
    assert of_samples == attempts_of_the_first
    assert again.table.keys() == SAMPLES.keys() | TROUBLED.keys()


# The troubled


@pytest.mark.slow_proof
def test_up_exits_with_2_when_something_failed(home: Home, again: Run) -> None:
    assert (again.code, again.error_lines) == (2, [])
    assert home.states() == {"done": len(SAMPLES), "failed": len(TROUBLED)}


@pytest.mark.slow_proof
@pytest.mark.parametrize("name", TROUBLED)
def test_each_failed_document_is_named_with_a_sentence_that_explains_the_failure(
    name: str, again: Run
) -> None:
    kind, sentence = TROUBLED[name]
    assert again.printed(rf"^failed: file:\S+/{name}: {kind}: .*{re.escape(sentence)}")
    assert again.table[name][-2:] == ["failed", ""]


def test_no_log_holds_a_traceback_or_an_error(home: Home, finished: Run) -> None:
    logs = {path.name: path.read_text() for path in (home.directory / "log").glob("*.log")}
    assert {"worker.log", "beat.log", "housekeeping.log", "web.log", "flower.log"} <= logs.keys()
    for name, text in logs.items():
        assert not re.search(r"Traceback| ERROR | CRITICAL |Warning: No directory", text), name
