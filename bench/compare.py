"""`python -m bench.compare A B`: two commits on the same benchmark, in pairs that alternate: A, B, A, B ...

Each commit is checked out into a temporary git worktree, and the benchmark runs there: its own code,
with the packages of this environment. Every number in the JSON that it prints is a figure. With
`--bench-of-here` both are measured by the benchmarks of this checkout, which a commit may not have.
Processor seconds are those of all that a run started, servers included.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from rich.console import Console

from bench import command_line
from bench.child import ROOT
from bench.measures import ratios, spread, table

BENCHMARK = ["python", "-m", "bench.finish", "--rounds", "1", "--json"]
PROCESSOR = "processor seconds of the run"
STOP_SECONDS = 30
"""How long an interrupted benchmark may take to stop its servers."""

Figures = dict[str, float]


class CannotCompare(Exception):
    """Why there is nothing to compare, in a sentence."""


def main() -> None:
    options = _options()
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # a shell may start what is in its background deaf to the first
        signal.signal(number, _interrupt)
    try:
        found = compare(options.commits, options.benchmark or BENCHMARK, options.rounds,
                        bench_of_here=options.bench_of_here)  # fmt: skip
    except CannotCompare as error:
        sys.exit(f"bench.compare: {error}")
    except KeyboardInterrupt:
        sys.exit("bench.compare: interrupted")
    rows = [
        [
            name,
            *(str(spread(each)) for each in pair),
            *([str(ratios(pair[1], pair[0]))] if all(pair[0]) else ["-"]),
        ]
        for name, pair in found.items()
    ]
    title = f"{options.rounds} pairs of {' '.join(options.benchmark or BENCHMARK)}"
    columns = ("median (lowest - highest)", *options.commits, f"{options.commits[1]} : {options.commits[0]}")
    Console(width=150).print(table(title, columns, rows))


def _options() -> argparse.Namespace:
    parser = command_line.parser(
        "bench.compare",
        __doc__,
        "main~1 main",
        "v1 v2 --rounds 3 -- python -m bench --quick --rounds 1 --json",
    )
    parser.add_argument("commits", nargs=2, metavar="COMMIT", help="two commits, tags or branches")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of runs (default 5)")
    parser.add_argument(
        "--bench-of-here", action="store_true", help="measure both with the folder bench of this checkout"
    )
    arguments, benchmark = sys.argv[1:], list[str]()
    if "--" in arguments:
        at = arguments.index("--")
        arguments, benchmark = arguments[:at], arguments[at + 1 :]
    options = parser.parse_args(arguments)
    options.benchmark = benchmark
    return options


def compare(
    commits: Sequence[str], benchmark: Sequence[str], rounds: int, *, bench_of_here: bool = False
) -> dict[str, tuple[list[float], list[float]]]:
    """The values of each figure that both commits have, round by round."""
    hashes = [commit_of(name) for name in commits]
    found: list[list[Figures]] = [[], []]
    with ExitStack() as stack:
        trees = [stack.enter_context(checkout(each)) for each in hashes]
        if bench_of_here:
            for tree in trees:
                shutil.rmtree(tree / "bench", ignore_errors=True)
                shutil.copytree(ROOT / "bench", tree / "bench", ignore=shutil.ignore_patterns("__pycache__"))
        for number in range(rounds):
            for name, tree, figures in zip(commits, trees, found, strict=True):
                print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr)
                figures.append(run(benchmark, tree))
    names = [name for name in found[0][0] if all(name in each for side in found for each in side)]
    return {name: ([each[name] for each in found[0]], [each[name] for each in found[1]]) for name in names}


def commit_of(name: str) -> str:
    asked = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if asked.returncode:
        raise CannotCompare(f"{name} is no commit, tag or branch of this repository")
    return asked.stdout.strip()


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A worktree of this commit while the block runs."""
    try:
        with tempfile.TemporaryDirectory(prefix="sluice-compare-") as folder:
            Path(folder).chmod(0o755)  # the server of PostgreSQL has another user where this is run by root
            tree = Path(folder) / "tree"
            made = _git("worktree", "add", "--detach", str(tree), commit)
            if made.returncode:
                raise CannotCompare(f"git cannot check out {commit}: {made.stderr.strip()}")
            yield tree
    finally:
        _git("worktree", "prune")


def run(benchmark: Sequence[str], tree: Path) -> Figures:
    """The figures of one run on the code of this worktree."""
    command = [sys.executable if benchmark[0] in ("python", "python3") else benchmark[0], *benchmark[1:]]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    before = os.times()
    process = subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        printed, _ = process.communicate()
    finally:
        _stop(process)
    after = os.times()
    if process.returncode:
        raise CannotCompare(f"{' '.join(benchmark)} ended with {process.returncode} on {_head(tree)}")
    figures = dict(flat(_last_json(printed, benchmark)))
    if not figures:
        raise CannotCompare(f"{' '.join(benchmark)} printed JSON without a number")
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return {**figures, PROCESSOR: spent}


def _head(tree: Path) -> str:
    return _git("-C", str(tree), "log", "-1", "--format=%h %s").stdout.strip()


def _stop(process: subprocess.Popen[str]) -> None:
    """Interrupt a benchmark that still runs, so that it stops its servers; then kill what is left of it."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_json(printed: str, benchmark: Sequence[str]) -> Any:
    """All of the output, or its last line."""
    for text in (printed, printed.strip().rpartition("\n")[2]):
        try:
            return json.loads(text)
        except ValueError:
            continue
    raise CannotCompare(f"{' '.join(benchmark)} prints no figures as JSON: has it an option --json?")


def flat(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Each number by the way to it; entries of a list by their names, of a spread only its median."""
    if isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        yield path or "figure", float(value)
    elif isinstance(value, Mapping):
        if set(value) == {"median", "lowest", "highest"}:
            value = value["median"]
            yield from flat(value, path)
            return
        for name, each in value.items():
            yield from flat(each, f"{path}, {name}" if path else str(name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            name = each.get("name", number) if isinstance(each, Mapping) else number
            yield from flat(each, f"{path}, {name}" if path else str(name))


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
