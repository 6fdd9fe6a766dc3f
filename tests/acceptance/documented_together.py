"""Pages of the documentation whose blocks are run by one process, in one project, in their order."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.acceptance.documented_page import Block, Page
from tests.acceptance.documented_reader import matches
from tests.acceptance.warm_environment import environment_of

HERE = Path(__file__).parent
PROGRAM = "from documented_shell import main; main()"


def run_together(pages: Iterable[Path], project: Path, environment: Path) -> list[str]:
    """Run the blocks of these pages in a project, with the Python of an environment; returns what was other
    than a page says."""
    blocks = {str(path): [b for b in Page(path).blocks if _is_run(b)] for path in pages}
    report = project.parent / "report.json"
    variables = {"PYTHONPATH": str(HERE), "DOCUMENTED_REPORT": str(report), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [environment / "bin" / "python", "manage.py", "shell", "-c", PROGRAM], cwd=project,
        env=environment_of(environment) | variables, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=400,
        input=json.dumps({page: list(map(_as_json, of_page)) for page, of_page in blocks.items()}),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    ran = json.loads(report.read_text())
    return [
        f"{Path(page).name}, line {block.line}: {wrong}"
        for page, of_page in blocks.items()
        for block, result in zip(of_page, ran[page], strict=True)
        for wrong in _wrong(block, result)
    ]


def _is_run(block: Block) -> bool:
    return block.language in ("python", "pycon", "console", "bash", "sh") and not block.why_not


def _commands(block: Block) -> list[str]:
    return [] if block.language in ("python", "pycon") else [command.text for command in block.commands]


def _as_json(block: Block) -> dict[str, Any]:
    return {**asdict(block), "given": block.given, "commands": _commands(block)}


def _wrong(block: Block, result: dict[str, Any]) -> Iterator[str]:
    if result["wrong"]:
        yield result["wrong"]
        return
    codes = [code for code, _ in result["ended"]]
    if set(codes) - {0} != {block.exit_code} - {0}:
        yield f"exit codes {codes}\n{result['ended']}"
    commands = [] if not _commands(block) else block.commands
    for command, (_, printed) in zip(commands, result["ended"], strict=True):
        if not matches(command.printed, printed.strip()):
            yield f"{command.text} printed:\n{printed}"
