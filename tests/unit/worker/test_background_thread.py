"""Threads a worker cannot do without: they go on after errors, or end the process."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from queuemgr.worker.background_thread import THREAD_DIED

SCRIPT = """
    import os, time
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.unit.worker.no_settings"
    from queuemgr.worker import background_thread

    def act():
        {body}

    background_thread.{start}
    time.sleep(20)
"""


def run(body: str, start: str) -> subprocess.CompletedProcess[str]:
    script = textwrap.dedent(SCRIPT).format(body=body, start=start)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("body", ["raise SystemExit(0)", "raise KeyboardInterrupt", "return", "1 / 0"])
def test_a_process_whose_vital_thread_ends_ends_with_it(body: str) -> None:
    """Whatever ended it: a worker that stores no results must not stay signed in."""
    ended = run(body, 'start_vital("committer", act)')
    assert ended.returncode == THREAD_DIED
    assert "thread committer" in ended.stderr


def test_a_repeated_act_goes_on_after_errors() -> None:
    body = "count = globals()['count'] = globals().get('count', 0) + 1; 1 / 0 if count < 2 else os._exit(7)"
    assert run(body, 'repeat("beat", act)').returncode == 7
