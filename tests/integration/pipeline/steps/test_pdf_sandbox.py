"""The sandbox against children that misbehave in every way a parser of hostile files can."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from pipeline.steps.pdf import sandbox, warm_start
from pipeline.steps.pdf.sandbox import ResourceLimits, describe, read_pages
from queuemgr.base.errors import Aborted
from queuemgr.flows.abort_signal import NEVER, AbortSignal
from tests.sandbox_processes import family

ROOMY = ResourceLimits(
    page_seconds=20, document_seconds=60, memory_bytes=1 << 30, output_bytes=1 << 20, threads=1
)
# START_SECONDS of grace apply to a child's first line, so hanging children count their pages first.
HASTY = replace(ROOMY, page_seconds=1.0)

Script = Callable[[str], Path]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Write a child script from the body of its `lines(job)`."""

    def write(body: str) -> Path:
        path = tmp_path / "child.py"
        head = "import os, subprocess, sys, time\n\ndef lines(job):\n"
        path.write_text(head + textwrap.indent(textwrap.dedent(body), "    "))
        return path

    return write


UNCONFINED = f"""
import sys
sys.path.append({str(Path.cwd())!r})
from pipeline.steps.confinement import confine
from pipeline.steps.pdf import child
confine.confine_to_files = confine.confine_to_calls = lambda *given, **named: ""
child.main(sys.argv[1])
"""


@pytest.fixture
def unconfined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Children that can start others, as where the kernel cannot confine them."""
    child = tmp_path / "unconfined_child.py"
    child.write_text(UNCONFINED)
    monkeypatch.setattr(sandbox, "CHILD", child)
    monkeypatch.setattr(warm_start, "IS_USABLE", False)


def wait_until(condition: Callable[[], object], seconds: float = 30) -> float:
    """Seconds until the condition held."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, "it did not come to pass"
        time.sleep(0.01)
    return time.monotonic() - start


def gone(processes: list[psutil.Process]) -> bool:
    return not any(map(_lives, processes))


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it ended between the two questions
        return False


PAGES = """
yield {"count": 3}
for page in job["pages"] or [1, 2, 3]:
    %s
    yield {"page": page, "text": str(page)}
"""


def test_pages_come_back_with_their_text_and_nothing_is_left_running(script: Script) -> None:
    reading = read_pages(script(PAGES % "pass"), {}, ROOMY, NEVER)
    assert [line["text"] for line in reading.lines.values()] == ["1", "2", "3"]
    assert (reading.count, reading.failed, reading.stopped.reason) == (3, {}, "")
    assert family() == []


def test_a_hung_page_is_named_and_the_pages_around_it_are_read(script: Script) -> None:
    """Hung pages are reported; one of them does not fail the document."""
    hangs = script(PAGES % "if page == 2: time.sleep(600)")
    reading = read_pages(hangs, {}, HASTY, NEVER)
    assert sorted(reading.lines) == [1, 3]
    assert reading.failed[2].reason == "page_seconds"
    assert family() == []


def test_a_document_stops_at_its_time_and_keeps_what_was_read(script: Script) -> None:
    slow = script(PAGES % "time.sleep(0 if page == 1 else 600)")
    reading = read_pages(slow, {}, replace(ROOMY, document_seconds=3), NEVER)
    assert sorted(reading.lines) == [1]
    assert reading.stopped.reason == "document_seconds"


def test_a_busy_loop_in_c_is_killed_as_well(script: Script) -> None:
    loops = script(PAGES % "if page == 2: sum(range(10**12))")
    assert read_pages(loops, {}, HASTY, NEVER).failed[2].reason == "page_seconds"


def test_memory_is_limited_for_the_child_alone(script: Script) -> None:
    greedy = script(PAGES % "if page == 2: bytearray(4 << 30)")
    reading = read_pages(greedy, {}, ROOMY, NEVER)
    assert sorted(reading.lines) == [1, 3]
    assert reading.failed[2].reason == "memory"
    assert len(bytearray(1 << 20)) == 1 << 20


def test_a_child_that_aborts_costs_its_page_and_says_how_it_died(script: Script) -> None:
    reading = read_pages(script(PAGES % "if page == 3: os.abort()"), {}, ROOMY, NEVER)
    assert sorted(reading.lines) == [1, 2]
    assert "SIGABRT" in describe(reading.failed[3])


def test_a_document_that_kills_every_child_ends_after_a_few(script: Script) -> None:
    deadly = script('yield {"count": 500}\nos.abort()')
    start = time.monotonic()
    reading = read_pages(deadly, {}, ROOMY, NEVER)
    assert len(reading.failed) < 10
    assert reading.stopped.reason == "crashed"
    assert time.monotonic() - start < 60


def test_output_is_capped(script: Script) -> None:
    floods = script('yield {"count": 3000}\nfor n in range(1, 3001): yield {"page": n, "text": "x" * 10000}')
    assert read_pages(floods, {}, ROOMY, NEVER).stopped.reason == "output_bytes"


def test_a_line_that_never_ends_is_capped_too(script: Script) -> None:
    floods = script('yield {"count": 1}\nyield {"page": 1, "text": "x" * 3000000}')
    assert read_pages(floods, {}, ROOMY, NEVER).stopped.reason == "output_bytes"


def test_what_a_library_prints_forges_no_line(script: Script) -> None:
    forges = script(PAGES % """print('{"page": 9, "text": "forged"}', flush=True)""")
    assert sorted(read_pages(forges, {}, ROOMY, NEVER).lines) == [1, 2, 3]


def test_nonsense_instead_of_lines_counts_as_a_crash(script: Script) -> None:
    reading = read_pages(script('yield {"count": "many"}'), {}, ROOMY, NEVER)
    assert reading.stopped.reason == "crashed"


def test_an_exception_is_reported_by_type_and_line_not_by_its_message(script: Script) -> None:
    """The message of a parser's error may quote the document."""
    fails = script('yield {"count": 1}\nraise KeyError("a line of the paper")')
    detail = read_pages(fails, {}, ROOMY, NEVER).failed[1].detail
    assert detail.startswith("KeyError at child.py:")
    assert "paper" not in detail


def test_no_secret_of_the_worker_reaches_the_child(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_LLM_API_KEY", "sk-secret")
    tells = script('yield {"count": 1}\nyield {"page": 1, "env": dict(os.environ)}')
    seen = read_pages(tells, {}, ROOMY, NEVER).lines[1]["env"]
    assert "sk-secret" not in str(seen)
    assert seen["OMP_NUM_THREADS"] == "1"


def test_a_child_can_write_no_file(script: Script, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    writes = script(f'yield {{"count": 1}}\nwith open({out!r}, "w") as f: f.write("x" * 99)')
    assert "PermissionError" in read_pages(writes, {}, ROOMY, NEVER).failed[1].detail
    assert not Path(out).exists()


REMEMBERS = """
import pypdf
seen = getattr(pypdf, "seen", [])
pypdf.seen = [*seen, job["name"]]
yield {"count": 1}
yield {"page": 1, "seen": seen, "pid": os.getpid(), "parent": os.getppid(), "group": os.getpgrp()}
"""


def test_documents_share_a_template_and_nothing_that_one_of_them_left(script: Script) -> None:
    remembers = script(REMEMBERS)
    first, second = (
        read_pages(remembers, {"name": name}, ROOMY, NEVER).lines[1] for name in ("first", "second")
    )
    assert first["seen"] == second["seen"] == []
    assert first["pid"] != second["pid"] and first["parent"] == second["parent"] != os.getpid()
    assert (first["group"], second["group"]) == (first["pid"], second["pid"])


def test_a_killed_template_costs_its_documents_and_the_next_ones_have_another(script: Script) -> None:
    remembers = script(REMEMBERS)
    parent = read_pages(remembers, {"name": "first"}, ROOMY, NEVER).lines[1]["parent"]
    os.kill(parent, signal.SIGKILL)
    assert read_pages(remembers, {"name": "second"}, ROOMY, NEVER).lines[1]["parent"] != parent


def test_a_template_is_replaced_after_so_many_children(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm_start.end()
    monkeypatch.setattr(warm_start, "MOST_CHILDREN", 2)
    remembers = script(REMEMBERS)
    parents = [read_pages(remembers, {"name": ""}, ROOMY, NEVER).lines[1]["parent"] for _ in range(5)]
    assert parents[0] == parents[1] != parents[2] == parents[3] != parents[4]
    wait_until(lambda: not psutil.pid_exists(parents[0]) and not psutil.pid_exists(parents[2]))


def test_a_replaced_template_stays_until_its_last_child_has_ended(script: Script) -> None:
    ends: list[object] = []
    slow = script('yield {"count": 1}\nyield {"page": 1}\ntime.sleep(600)')
    signal_ = AbortSignal()
    reads = threading.Thread(target=lambda: ends.append(ending_of(slow, signal_)))
    reads.start()
    wait_until(family)
    [child] = family()
    template = child.parent()
    warm_start.end()
    assert template is not None and template.is_running() and child.is_running()
    signal_.abort("enough")
    reads.join(60)
    assert ends == ["Aborted"]
    wait_until(lambda: gone([template, child]))


def ending_of(script: Path, signal_: AbortSignal) -> str:
    try:
        read_pages(script, {}, ROOMY, signal_)
    except Aborted as aborted:
        return type(aborted).__name__
    return ""


def test_a_forked_worker_has_a_template_of_its_own(script: Script) -> None:
    remembers = script(REMEMBERS)
    parent = read_pages(remembers, {"name": ""}, ROOMY, NEVER).lines[1]["parent"]
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        found = b""
        try:
            found = str(read_pages(remembers, {"name": ""}, ROOMY, NEVER).lines[1]["parent"]).encode()
            warm_start.end()
        finally:
            os.write(writing, found or b"0")
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert int(pipe.read()) not in (0, parent)
    os.waitpid(pid, 0)
    assert read_pages(remembers, {"name": ""}, ROOMY, NEVER).lines[1]["parent"] == parent


def test_abort_kills_the_whole_process_group_at_once(script: Script, unconfined: None) -> None:
    """On abort no process survives, including the child's own children."""
    spawns = script(
        'subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])\n'
        'yield {"count": 1}\ntime.sleep(600)'
    )
    signal, raised = AbortSignal(), []

    def work() -> None:
        try:
            read_pages(spawns, {}, ROOMY, signal)
        except Aborted as aborted:
            raised.append(str(aborted))

    worker = threading.Thread(target=work)
    worker.start()
    wait_until(lambda: len(family()) == 2)
    processes = family()
    signal.abort("withdrawn by a test")
    assert wait_until(lambda: gone(processes)) < 10
    worker.join(2)
    assert raised == ["withdrawn by a test"]


def test_an_abort_that_came_first_starts_nothing_that_stays(script: Script) -> None:
    signal = AbortSignal()
    signal.abort("too late")
    with pytest.raises(Aborted):
        read_pages(script('yield {"count": 1}\ntime.sleep(600)'), {}, ROOMY, signal)
    assert family() == []


def test_grandchildren_do_not_outlive_a_child_that_finished(script: Script, unconfined: None) -> None:
    spawns = script(
        'child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])\n'
        'yield {"count": 1}\nyield {"page": 1, "pid": child.pid}'
    )
    pid = read_pages(spawns, {}, ROOMY, NEVER).lines[1]["pid"]
    wait_until(lambda: not psutil.pid_exists(pid) or gone([psutil.Process(pid)]))


def test_a_killed_worker_leaves_no_orphan(script: Script) -> None:
    """The child notices that its worker is gone, even by kill -9, and exits."""
    hangs = script('yield {"count": 1}\ntime.sleep(600)')
    program = (
        "from pathlib import Path\n"
        "from pipeline.steps.pdf.sandbox import ResourceLimits, read_pages\n"
        "from queuemgr.flows.abort_signal import NEVER\n"
        f"read_pages(Path({str(hangs)!r}), {{}}, ResourceLimits(60, 60, 1 << 30, 1 << 20), NEVER)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=os.getcwd()) as worker:
        wait_until(lambda: family(worker.pid))
        children = family(worker.pid)
        time.sleep(0.5)  # let the child get as far as hanging
        worker.kill()
        assert wait_until(lambda: gone(children)) < 10
