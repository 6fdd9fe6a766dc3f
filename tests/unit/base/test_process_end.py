"""A program that is ended without freeing its objects ends as `sys.exit` ends it."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
from django.core import management

from queuemgr.base import process_end

ROOT = Path(__file__).parents[3]
PROGRAM = """
import atexit, sys, threading, time
{end_import}
def thread():
    time.sleep(0.1)
    print("thread")
    sys.__stderr__.write("thread")
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
    "text without a standard error": ("sys.stderr = None", "'what is wrong'"),
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


def test_an_interrupt_while_threads_end_skips_no_exit_function() -> None:
    program = (
        "import atexit, os, signal, threading, time\nfrom queuemgr.base.process_end import end_process\n"
        "def interrupt():\n  time.sleep(0.1)\n  os.kill(os.getpid(), signal.SIGINT)\n  time.sleep(0.1)\n"
        "atexit.register(print, 'registered')\nthreading.Thread(target=interrupt).start()\nend_process(3)"
    )
    assert _run(program)[:2] == (3, "registered\n")


@pytest.mark.parametrize(("command", "code"), {"migrate": "quickly", "export": 4}.items())
def test_only_commands_of_ours_end_without_freeing_what_they_hold(
    command: str, code: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of an application's own may have left a file unclosed, whose buffer is written as it is freed."""
    monkeypatch.setattr(management, "execute_from_command_line", lambda argv: sys.exit(4))
    monkeypatch.setattr(process_end, "end_process", lambda code: sys.exit("quickly"))
    monkeypatch.setattr(sys, "argv", ["manage.py", command])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "manage.py"), run_name="__main__")
    assert ended.value.code == code


def test_every_command_of_ours_is_named() -> None:
    ours = {path.stem for path in ROOT.glob("*/management/commands/[a-z]*.py")}
    assert ours
    assert ours <= process_end.OUR_COMMANDS


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
