"""Two commits are compared in pairs, each on its own code, and nothing is left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench import compare
from tests.compose_file import ROOT

MEASURE = "import json, measured; print(json.dumps({'runs': [{'name': 'rate', 'value': measured.RATE}]}))"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits, `slow` and `fast`, that differ in what they measure."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for tag, rate in (("slow", 10), ("fast", 20)):
        note = f"with open({str(tmp_path / 'ran')!r}, 'a') as ran: ran.write('{tag}\\n')\n"
        (folder / "measured.py").write_text(f"RATE = {rate}\n{note}")
        git(folder, "add", ".")
        git(folder, "-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "-m", tag)
        git(folder, "tag", tag)
    monkeypatch.setattr(compare, "ROOT", folder)
    return folder


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    ).stdout


def worktrees(folder: Path) -> int:
    return len(git(folder, "worktree", "list").splitlines())


def test_each_commit_runs_its_own_code_in_turn_and_its_worktree_is_removed(
    repository: Path, tmp_path: Path
) -> None:
    found = compare.compare(["slow", "fast"], ["python", "-c", MEASURE], 2)
    assert found["runs, rate, value"] == ([10, 10], [20, 20])
    assert [len(each) for each in found[compare.PROCESSOR]] == [2, 2]
    assert (tmp_path / "ran").read_text().split() == ["slow", "fast", "slow", "fast"]
    assert worktrees(repository) == 1


@pytest.mark.parametrize(
    ("commits", "code", "said"),
    [
        (["slow", "nowhere"], MEASURE, "nowhere is no commit"),
        (["slow", "--help"], MEASURE, "--help is no commit"),
        (["slow", "fast"], "print('fast enough')", "prints no figures as JSON"),
        (["slow", "fast"], "print('{}')", "printed JSON without a number"),
        (["slow", "fast"], "raise SystemExit(3)", "ended with 3 on .* slow"),
    ],
)
def test_what_cannot_be_compared_is_said(repository: Path, commits: list[str], code: str, said: str) -> None:
    with pytest.raises(compare.CannotCompare, match=said):
        compare.compare(commits, ["python", "-c", code], 1)
    assert worktrees(repository) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_comparison_leaves_no_worktree_and_no_process(
    repository: Path, number: signal.Signals
) -> None:
    wait = (
        "import signal, time; print('until interrupted', flush=True)\n"
        "try: time.sleep(600)\n"
        "finally: open('/dev/stderr', 'w').write('stopped its servers')"
    )
    start = (
        "import sys, pathlib; from bench import compare\n"
        f"compare.ROOT = pathlib.Path({str(repository)!r}); compare.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", start, "slow", "fast", "--", "sh", "-c", f'exec {sys.executable} -c "{wait}"'],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == "round 1 of 5: slow\n"
        while worktrees(repository) < 3:  # it has both before the first round
            pass
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert said.endswith("bench.compare: interrupted\n")
    assert worktrees(repository) == 1


def test_a_figure_is_named_by_the_way_to_it() -> None:
    report = {
        "no-ops": [{"name": "SQLite", "rate": {"median": 3.0, "lowest": 1.0, "highest": 4.0}, "met": True}],
        "seconds": [0.5, 0.25],
    }
    assert dict(compare.flat(report)) == {"no-ops, SQLite, rate": 3.0, "seconds, 0": 0.5, "seconds, 1": 0.25}
