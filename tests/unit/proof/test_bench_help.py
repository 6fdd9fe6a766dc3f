"""Every benchmark, and every program one starts, says what it does when asked for help."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from tests.compose_file import ROOT

MODULES = sorted(
    "bench" if path.stem == "__main__" else f"bench.{path.stem}"
    for path in (ROOT / "bench").glob("*.py")
    if 'if __name__ == "__main__":' in path.read_text()
)

ASK_ALL = """
import contextlib, io, json, runpy, sys, traceback

answers = {}
for module in sys.argv[1:]:
    sys.argv = [module, "--help"]
    said, code = io.StringIO(), None
    sys.modules.pop(module, None)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as end:
            code = end.code
        except Exception:
            traceback.print_exc()
    answers[module] = [code, said.getvalue()]
print(json.dumps(answers))
"""


@cache
def answers() -> dict[str, list[Any]]:
    """The exit code and the text of `python -m MODULE --help`, all in one process that knows no settings."""
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("SLUICE_", "DJANGO_", "DATABASE_"))
    }
    ran = subprocess.run(
        [sys.executable, "-c", ASK_ALL, *MODULES],
        cwd=ROOT, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    found: dict[str, list[Any]] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("module", MODULES)
def test_every_benchmark_prints_help_with_an_example_and_exits_0(module: str) -> None:
    code, said = answers()[module]
    assert code in (0, None), said
    assert said.startswith(f"usage: python -m {module} ")
    assert f"python -m {module} " in said.partition("\nexamples:\n")[2]


def test_the_programs_that_benchmarks_start_are_among_those_asked() -> None:
    assert {"bench", "bench.backlog", "bench.history", "bench.vision_stub"} <= {*MODULES}
