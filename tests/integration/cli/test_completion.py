"""What shells complete after `queue`, asked of the shells themselves."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest

from queuemgr.cli import completion
from queuemgr.flows.flow import PRIORITIES
from tests.integration.cli.test_every_command import leaves, options_of, parser

SHELLS = [
    pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"needs {name}"))
    for name in completion.SHELLS
]


def completed(script: str, lines: list[str]) -> list[set[str]]:
    """What bash offers at the end of each of these command lines."""
    asked = [
        f"COMP_WORDS=({line} ''); COMP_CWORD={len(line.split())}; COMPREPLY=(); _sluicegate_queue; "
        'echo "${COMPREPLY[@]}"'
        for line in lines
    ]
    run = subprocess.run(
        ["bash", "-u"],
        input="\n".join([script, *asked]),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert run.stderr == ""
    return [set(line.split()) for line in run.stdout.splitlines()]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_every_command_its_options_and_their_values() -> None:
    script = completion.bash(completion.grammar())
    commands = {path: {*options_of(each)} for path, each in leaves(parser())}
    lines = [f"python manage.py queue {path}" for path in commands]
    for (path, options), offered in zip(commands.items(), completed(script, lines), strict=True):
        assert options - {"--no-color", "--help", "-h"} <= offered, path
    first, batch, values, elsewhere, free = completed(
        script,
        ["manage.py queue", "manage.py queue batch", "manage.py queue enqueue --priority",
         "manage.py migrate", "manage.py queue list --limit"],
    )  # fmt: skip
    assert {path.split()[0] for path in commands} <= first
    assert {path.split()[1] for path in commands if path.startswith("batch ")} <= batch
    assert values == {*PRIORITIES}
    assert elsewhere == free == set()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one_that_its_shell_reads(shell: str, tmp_path: Path) -> None:
    file = tmp_path / "script"
    file.write_text(completion.SHELLS[shell](completion.grammar()))
    run = subprocess.run([shell, "-n", str(file)], capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")


def test_words_that_need_quotes_are_left_out() -> None:
    made = argparse.ArgumentParser()
    made.add_argument("--mode", choices=["plain", "$(reboot)", "two words", "it's", "`x`"])
    assert completion._plain(made._actions[-1].choices) == ("plain",)
