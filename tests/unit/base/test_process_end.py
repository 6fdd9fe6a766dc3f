"""A program that is ended without freeing its objects ends as `sys.exit` ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import atexit, sys, threading, time
{end_import}
def thread():
    time.sleep(0.1)
    print("thread")
threading.Thread(target=thread).start()
atexit.register(print, "first registered")
atexit.register(print, "last registered")
sys.stdout.write("unfinished line")
{before}
{end}({code})
"""
ENDS = {
    "0": ("", "0"),
    "none": ("", "None"),
    "failed": ("", "3"),
    "beyond a byte": ("", "259"),
    "negative": ("", "-1"),
    "text": ("", "'what is wrong'"),
    "its output closed": ("sys.stdout.close(); sys.stdout = None; atexit.register(print)", "0"),
}


@pytest.mark.parametrize(("before", "code"), ENDS.values(), ids=ENDS)
def test_a_program_ends_as_sys_exit_ends_it(before: str, code: str) -> None:
    ends = {"sys.exit": "", "end_process": "from queuemgr.base.process_end import end_process"}
    ended, ended_quickly = [
        _run(PROGRAM.format(before=before, code=code, end=end, end_import=end_import))
        for end, end_import in ends.items()
    ]
    assert ended_quickly == ended


def test_output_that_nobody_reads_any_more_is_said_by_the_exit_code() -> None:
    program = "from queuemgr.base.process_end import end_process; input(); print('x'); end_process(0)"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=ROOT, env=buffered, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin and process.stdout
        process.stdout.close()
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.wait(60) == 120


def _run(program: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr
