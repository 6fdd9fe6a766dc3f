"""A program that reads pictures, such as Tesseract, is started confined: it is what it was, and no more."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.steps.confinement import start
from pipeline.steps.ocr import tesseract
from pipeline.steps.ocr.tesseract import Tesseract, confined, environment
from queuemgr.steptools.subprocess_group import ProgramFailed, run_program
from tests.integration.pipeline.steps.test_confinement import ESCAPES, job

__all__ = ["job"]

PYTHON = os.path.realpath(sys.executable)
"""A program of the system's own kind, no script."""

TRY_ALL = """
import json, sys
print(json.dumps([line for line in lines(json.load(sys.stdin))][1:]))
"""


def run(command: list[str], given: bytes = b"") -> bytes:
    return asyncio.run(run_program(command, stdin=given, environment=environment()))


def test_whatever_a_confined_program_tries_is_refused(job: dict[str, Any]) -> None:
    code = ESCAPES.read_text() + TRY_ALL
    said = json.loads(run(confined([PYTHON, "-I", "-B", "-c", code]), json.dumps(job).encode()))
    assert [line for line in said if not line["outcome"].startswith("refused")] == []
    assert len(said) > 40


def test_a_confined_program_becomes_no_other() -> None:
    with pytest.raises(ProgramFailed, match="Permission"):
        run(confined([PYTHON, "-I", "-c", "import os; os.execv('/bin/sh', ['sh', '-c', 'echo became'])"]))


def test_a_script_that_stands_for_a_program_starts_it(tmp_path: Path) -> None:
    script = tmp_path / "wrapper"
    script.write_text('#!/bin/sh\nexec /bin/echo "$@"\n')
    script.chmod(0o755)
    assert run(confined([str(script), "as", "given"])) == b"as given\n"


def test_what_a_program_is_loaded_by_is_known(tmp_path: Path) -> None:
    is_script, loads = start.loader(PYTHON)
    assert not is_script and (not loads or os.path.exists(loads))
    for head, expected in (
        (b"#!/bin/sh -e\n", (True, "/bin/sh")), (b"#!\n", (True, "")), (b"", (False, "")),
        (b"\x7fELF\x02" + b"\xff" * 4_000, (False, "")), (b"\x7fELF\x01", (False, "")), (b"MZ", (False, "")),
    ):  # fmt: skip
        (tmp_path / "program").write_bytes(head)
        assert start.loader(str(tmp_path / "program")) == expected


def test_tesseract_is_started_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    async def note(command: list[str], **given: Any) -> bytes:
        started.append(command)
        return b"text"

    monkeypatch.setattr(tesseract, "run_program", note)
    program = Tesseract("eng", osd=True, page_seconds=1.0)
    asyncio.run(program._run(b"picture"))
    assert started == [confined(program.command())]


@pytest.mark.skipif(shutil.which(tesseract.PROGRAM) is None, reason="Tesseract is not installed")
def test_tesseract_reads_confined_what_it_reads_free() -> None:
    picture = b"P5\n300 100\n255\n" + (b"\xff" * 100 + b"\0" * 10 + b"\xff" * 190) * 100
    command = Tesseract("eng", osd="osd" in tesseract.languages_installed(), page_seconds=1.0).command()
    assert run(confined(command), picture) == run(command, picture)
