"""Code that has taken over a parser reaches no file but the document, no network and no other process."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.steps.confinement.seccomp import (
    ALLOW,
    ARCHITECTURES,
    ARGUMENTS,
    CALL,
    EQUAL,
    ERRNO,
    LOAD,
    RETURN,
    Instruction,
)
from pipeline.steps.confinement.syscalls import NUMBERS
from pipeline.steps.pdf.sandbox import ReadResult, ResourceLimits, read_pages
from queuemgr.flows.abort_signal import NEVER
from tests.look_at_processes import FILES, open_files
from tests.sandbox_escapes import ATTEMPTS, NETWORK, READING, WRITING

ROOMY = ResourceLimits(page_seconds=20, document_seconds=60, memory_bytes=1 << 30, output_bytes=1 << 20)

PROCESS = Path("/proc/self/status").read_text()
ALL_RIGHTS = (1 << 41) - 1 & ~(1 << 16)
"""But for loading modules, which a kernel may not have."""

ESCAPES = Path(__file__).parents[3] / "sandbox_escapes.py"


@pytest.fixture
def job(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A data directory with secrets, a sibling process, and servers that listen."""
    data = tmp_path / "data"
    (data / "empty").mkdir(parents=True)
    (data / "secret-key").write_text("secret")
    (data / "other.pdf").write_bytes(b"%PDF-")
    (data / "link").symlink_to(data / "secret-key")
    document = data / "wanted.pdf"
    document.write_bytes(b"%PDF- wanted")
    with sqlite3.connect(data / "db.sqlite3") as database:
        database.execute("CREATE TABLE users (name)")
    database.close()
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        held = stack.enter_context((data / "secret-key").open())
        sibling = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        )
        yield {
            "data": str(data), "pdf": str(document), "database": str(data / "db.sqlite3"),
            "parent": os.getpid(), "sibling": sibling.pid, "held": held.fileno(),
            "tcp": tcp.getsockname()[1],
            "unix": listening(stack, str(data / "server.sock")),
            "abstract": listening(stack, f"\0escape-{os.getpid()}")[1:],
        }  # fmt: skip
        sibling.kill()


def listening(stack: ExitStack, address: str) -> str:
    server = stack.enter_context(socket.socket(socket.AF_UNIX))
    server.bind(address)
    server.listen()
    return address


def succeeded(reading: ReadResult) -> list[str]:
    """The attempts that were not refused, with what they said."""
    return [
        f"{line['attempt']}: {line['outcome']}"
        for line in reading.lines.values()
        if not line["outcome"].startswith("refused")
    ]


@pytest.mark.parametrize("starts_threads", [False, True])
def test_whatever_code_in_a_parser_tries_is_refused(job: dict[str, Any], starts_threads: bool) -> None:
    reading = read_pages(ESCAPES, job, replace(ROOMY, starts_threads=starts_threads), NEVER)
    assert succeeded(reading) == []
    assert reading.failed == {}
    assert sorted(os.listdir(job["data"])) == [
        "db.sqlite3", "empty", "link", "other.pdf", "secret-key", "server.sock", "wanted.pdf",
    ]  # fmt: skip
    assert Path(job["pdf"]).read_bytes() == b"%PDF- wanted"


THREADS = """
import threading

def lines(job):
    yield {"count": 1}
    started = 0
    try:
        for started in range(100):
            threading.Thread(target=threading.Event().wait, args=(1,), daemon=True).start()
    except RuntimeError:
        pass
    yield {"page": 1, "started": started}
"""


@pytest.mark.parametrize("starts_threads", [False, True])
def test_a_parser_starts_no_threads_unless_its_library_does(tmp_path: Path, starts_threads: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(THREADS)
    reading = read_pages(script, {}, replace(ROOMY, starts_threads=starts_threads), NEVER)
    assert (reading.lines[1]["started"] > 0) == starts_threads


EVERY_CALL = """
import ctypes

def lines(job):
    libc = ctypes.CDLL(None, use_errno=True)
    yield {"count": 1}
    said = {}
    for number in job["numbers"]:
        result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6)
        said[number] = ctypes.get_errno() if result == -1 else 0
    yield {"page": 1, "said": said}
"""


OF_PROBES = {335, 336}
"""Of the kernel's own probes: on x86-64 no filter sees them, and a process that calls them ends (SIGILL)."""


@pytest.mark.skipif(platform.machine() not in ARCHITECTURES, reason="no filter for this machine")
def test_every_system_call_that_a_parser_does_not_need_is_refused(tmp_path: Path) -> None:
    """Those of other kernels and of the 32-bit ways into this one, too."""
    column, _ = ARCHITECTURES[platform.machine()]
    needed = {numbers[column] for numbers in NUMBERS.values()}
    others = [number for number in range(600) if number not in needed | OF_PROBES]
    script = tmp_path / "script.py"
    script.write_text(EVERY_CALL)
    job = {"numbers": [*others, *(0x40000000 | number for number in range(600))]}
    (line,) = read_pages(script, job, ROOMY, NEVER).lines.values()
    assert set(line["said"].values()) <= {errno.ENOSYS, errno.EPERM, errno.ENOTTY}
    assert len(line["said"]) == len(job["numbers"])


ON_A_LESSER_KERNEL = """
import ctypes, json, sys
from pathlib import Path
from pipeline.steps.confinement import confine, seccomp
from pipeline.steps.pdf.sandbox import ResourceLimits, lacking, read_pages
from queuemgr.flows.abort_signal import NEVER

lesser, script, job = json.loads(sys.stdin.read())
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(confine.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
seccomp.install_program(libc, [seccomp.Instruction(*step) for step in lesser])
reading = read_pages(Path(script), job, ResourceLimits(20, 60, 1 << 30, 1 << 20), NEVER)
print(json.dumps([lacking(), reading.stopped.reason, list(reading.lines.values())]))
"""


def on_a_kernel_without(
    job: dict[str, Any], calls: list[int], error: int, prctl: int = -1
) -> tuple[list[str], set[str]]:
    """What is said to lack, and which attempts succeed, where these calls fail."""
    lesser = [Instruction(LOAD, 0, 0, CALL)]
    for number in calls:
        lesser += [Instruction(EQUAL, 0, 1, number), Instruction(RETURN, 0, 0, ERRNO | error)]
    if prctl >= 0:  # setting a filter in the older way
        lesser += [
            Instruction(EQUAL, 0, 3, prctl), Instruction(LOAD, 0, 0, ARGUMENTS),
            Instruction(EQUAL, 0, 1, PR_SET_SECCOMP), Instruction(RETURN, 0, 0, ERRNO | error),
        ]  # fmt: skip
    lesser.append(Instruction(RETURN, 0, 0, ALLOW))
    done = subprocess.run(
        [sys.executable, "-c", ON_A_LESSER_KERNEL],
        input=json.dumps([lesser, str(ESCAPES), {**job, "attempts": list(UNHARMFUL)}]),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lacks, stopped, lines = json.loads(done.stdout)
    assert stopped == ""
    return lacks, {line["attempt"] for line in lines if not line["outcome"].startswith("refused")}


PR_SET_SECCOMP = 22
UNHARMFUL = READING | WRITING | NETWORK
LANDLOCK_CALLS = [444, 445, 446]
HELD_BY_LANDLOCK = set(READING) | {
    name
    for name in WRITING
    if name.split()[0] in ("write", "append", "create", "truncate", "delete", "rename", "link", "make")
    and name != "truncate the open document"
}


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM], ids=errno.errorcode.get)
def test_without_landlock_a_parser_can_read_and_nothing_else(job: dict[str, Any], error: int) -> None:
    lacks, open_ways = on_a_kernel_without(job, LANDLOCK_CALLS, error)
    assert lacks == [f"Landlock ({os.strerror(error)})"]
    assert "read a secret" in open_ways
    assert open_ways <= set(READING)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86-64")
def test_without_seccomp_a_parser_still_opens_no_file_but_the_document(job: dict[str, Any]) -> None:
    lacks, open_ways = on_a_kernel_without(job, [317], errno.EINVAL, prctl=157)
    assert lacks == ["seccomp (Invalid argument)"]
    assert "send by UDP" in open_ways
    assert not open_ways & HELD_BY_LANDLOCK


def at_a_terminal(how: str, job: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """What the system lacks, and what came of each attempt of a process that is no parser's."""
    ours, theirs = os.openpty()
    try:
        os.write(ours, b"what somebody types\n" * 20)
        done = subprocess.run(
            [sys.executable, "-m", "tests.sandbox_control", how, json.dumps(job)],
            stdin=theirs, capture_output=True, text=True,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0, done.stderr
    lacks, outcomes = json.loads(done.stdout)
    assert list(outcomes) == list(ATTEMPTS)
    return lacks, outcomes


def test_a_worker_that_is_not_root_confines_its_children_as_well(job: dict[str, Any]) -> None:
    lacks, outcomes = at_a_terminal("confined", job)
    assert lacks == []
    assert {name: said for name, said in outcomes.items() if not said.startswith("refused")} == {}


CLOSED_ANYWAY = {
    "load a module": "a kernel may have none",
    "read the environment of process 1": "it may be private",
}
OF_ROOT = {
    "list the home", "read the passwords of the system", "read the kernel's log", "make a device",
    "change the root", "open a raw socket", "open a packet socket", "signal process 1",
    "enter a new mount namespace", "change the root for all", "handle faults of memory", "name the machine",
    "restart the machine", "swap", "read the kernel's messages",
}  # fmt: skip
"""What the kernel refuses to other users."""


def has_all_rights() -> bool:
    found = re.search(r"CapEff:\s+(\w+)", PROCESS)
    return bool(found) and int(found[1], 16) & ALL_RIGHTS == ALL_RIGHTS


@pytest.mark.skipif("Seccomp:\t0" not in PROCESS, reason="these tests run in a sandbox themselves")
def test_every_attempt_would_succeed_without_the_sandbox(job: dict[str, Any]) -> None:
    """Else that it is refused says nothing of the sandbox."""
    _, outcomes = at_a_terminal("free", job)
    closed = {name: said for name, said in outcomes.items() if not said.startswith("done")}
    expected = CLOSED_ANYWAY.keys() | (set() if has_all_rights() else OF_ROOT)
    assert {name: said for name, said in closed.items() if name not in expected} == {}


PRIVATE = """
import ctypes, os, sys
from pipeline.steps.confinement.confine import drop_capabilities
from queuemgr.base.private_memory import keep_private
drop_capabilities(ctypes.CDLL(None))  # else the kernel keeps out whoever has fewer
if sys.argv[1] == "private":
    keep_private()
if os.fork():
    os.wait()
else:
    print(os.getpid(), os.getppid(), flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize(("kind", "is_open"), [("private", False), ("usual", True)])
def test_the_environment_of_a_private_process_and_its_children_is_closed_to_its_own_user(
    kind: str, is_open: bool
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PRIVATE, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        seen = open_files(*pids)
        process.communicate("end\n")
    assert seen == [f"{pid}/{name}" for pid in pids for name in FILES if is_open]
