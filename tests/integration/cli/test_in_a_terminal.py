"""Commands in a shell: exit codes, standard error, closed pipes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.shell import Shell


def test_errors_go_to_stderr_in_one_line_without_a_traceback(installed: Path, shell: Shell) -> None:
    done = shell(installed, "queue", "pause", "perp")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("CommandError: nothing is called 'perp'")
    assert done.stderr.count("\n") == 1


def test_a_bad_option_exits_with_64_and_prints_the_usage(tmp_path: Path, shell: Shell) -> None:
    done = shell(tmp_path, "queue", "backfill", "--limit", "none")
    assert (done.returncode, done.stdout) == (64, "")
    assert "usage: manage.py queue backfill" in done.stderr
    assert "'none' is not a whole number of at least 1" in done.stderr


def test_a_database_without_tables_is_reported_with_its_remedy(tmp_path: Path, shell: Shell) -> None:
    done = shell(tmp_path, "queue", "stats")
    assert (done.returncode, done.stdout) == (5, "")
    assert "run `manage.py migrate`" in done.stderr and "Traceback" not in done.stderr


def test_an_invalid_setting_is_reported_with_its_value(tmp_path: Path, shell: Shell) -> None:
    done = shell(tmp_path, "queue", "stats", SLUICE_LEASE_SECONDS="soon")
    assert done.returncode == 3
    assert "SLUICE_LEASE_SECONDS='soon'" in done.stderr and "Traceback" not in done.stderr


def test_a_closed_output_pipe_ends_a_watch_without_an_error_message(installed: Path, shell: Shell) -> None:
    """Also: each line is flushed as soon as it is written."""
    watching = shell.start(installed, "queue", "stats", "--json", "--watch", "--interval", "0.1")
    assert json.loads(watching.stdout.readline())["total"] == 0
    watching.stdout.close()
    assert watching.stderr.read() == b""
    assert watching.process.wait(20) != 0
    watching.stderr.close()
