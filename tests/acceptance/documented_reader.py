"""Someone who follows a page of the documentation to the letter, in a terminal."""

from __future__ import annotations

import doctest
import os
import re
import signal
import subprocess
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from tests.acceptance.adopter_project import wait_until
from tests.acceptance.documented_page import Block, Command, Page

HERE = Path(__file__).parent
AT_THE_END = ", at the end"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
LONGEST = 300
INSTALLS = re.compile(r"python -m venv |source \S+/activate$|pip install ")
MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:\+00:00)?)?")
SHELL = "python manage.py shell"
SESSION = f"{SHELL} -c 'from documented_session import serve; serve()'"


class Reader:
    """Reads in a directory; `installs` says whether a new environment is really made and installed into."""

    def __init__(self, directory: Path, environment: Mapping[str, str], *, installs: bool = False) -> None:
        self.directory, self._installs = directory, installs
        self._notes = directory.parent / f"{directory.name}-notes"
        self._notes.mkdir(exist_ok=True)
        self._logs: dict[Path, str] = {}
        self._sessions = 0
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], cwd=directory, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**environment, "PYTHONPATH": str(HERE), "DOCUMENTED_NOTES": str(self._notes)},
        )  # fmt: skip

    def follow(self, page: Page) -> None:
        for block in page.blocks:
            if not block.why_not:
                try:
                    self._do(block)
                except AssertionError as error:
                    raise AssertionError(
                        f"{page.path.name}, line {block.line}: {error}{self._said()}"
                    ) from None

    def close(self) -> None:
        """Stop what is running; what it said has no traceback."""
        self._stop_all()
        with suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.communicate()
        assert "Traceback" not in self._said(), self._said()

    def _do(self, block: Block) -> None:
        if block.language == "pycon":
            self._enter(block.text)
        elif block.caption:
            self._write(block)
        elif block.until:
            self._start(block)
        else:
            for command in block.commands:
                self._type(command)

    def _write(self, block: Block) -> None:
        name, end, _ = block.caption.partition(AT_THE_END)
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if end else "w") as file:
            file.write("\n" + block.text if end else block.text)

    def _type(self, command: Command) -> None:
        if command.text == SHELL:
            self._open_session()
        elif self._installs or not INSTALLS.match(command.text):
            code, printed = self._bash_runs(command.text)
            assert code == 0, f"{command.text}: exit code {code}\n{printed}"
            assert matches(command.printed, printed), f"{command.text} printed:\n{printed}"

    def _start(self, block: Block) -> None:
        if block.is_restart:
            self._stop_all()
        (command,) = block.commands
        log = self._notes / f"{len(self._logs)}.log"
        log.touch()
        self._logs[log] = command.text
        _, job = self._bash_runs(f"{command.text} > {log} 2>&1 & echo $!")

        def is_ready() -> bool:
            assert psutil.pid_exists(int(job)), f"{command.text} has ended"
            return re.search(block.until, log.read_text()) is not None

        wait_until(f"{command.text} says {block.until}", is_ready)

    def _open_session(self) -> None:
        self._sessions += 1
        self._blocks = 0
        place = self._notes / f"session-{self._sessions}"
        place.mkdir()
        log = self._notes / f"{place.name}.log"
        log.touch()
        self._bash_runs(f"DOCUMENTED_SESSION={place} {SESSION} > {log} 2>&1 &")

    def _enter(self, text: str) -> None:
        self._blocks += 1
        place = self._notes / f"session-{self._sessions}"
        written, report = place / f"{self._blocks}.new", place / f"{self._blocks}.report"
        written.write_text(text)
        written.rename(place / f"{self._blocks}.pycon")
        log = place.with_suffix(".log")
        wait_until(f"a session entered {text}", lambda: report.exists() or "Traceback" in log.read_text())
        said = report.read_text() if report.exists() else log.read_text()
        assert said == "", said

    def _bash_runs(self, command: str) -> tuple[int, str]:
        """Its exit code and what it printed. There is one shell: what it exports stays."""
        token = uuid.uuid4().hex
        assert self._bash.stdin and self._bash.stdout
        late = threading.Timer(LONGEST, lambda: os.killpg(self._bash.pid, signal.SIGKILL))
        late.start()
        self._bash.stdin.write(f"{{ {command}\n}} < /dev/null\nprintf '\\n{token} %s\\n' $?\n")
        self._bash.stdin.flush()
        lines: list[str] = []
        for line in self._bash.stdout:
            if line.startswith(token):
                late.cancel()
                return int(line.split()[1]), "".join(lines).strip()
            lines.append(line)
        raise AssertionError(f"{command} did not end in {LONGEST} s\n{''.join(lines)}")

    def _stop_all(self) -> None:
        self._bash_runs("kill $(jobs -p) 2> /dev/null; wait")

    def _said(self) -> str:
        return "".join(
            f"\n--- {command}\n{log.read_text()}" for log, command in self._logs.items() if log.exists()
        )


def matches(shown: str, printed: str) -> bool:
    """Whether what is shown, if anything is, is what was printed: at any time, if times are shown."""
    if not shown:
        return True
    anything = re.sub(r"^\.\.\.$", "...", MOMENT.sub("a time", shown), flags=re.MULTILINE)
    return doctest.OutputChecker().check_output(f"{anything}\n", f"{MOMENT.sub('a time', printed)}\n", FLAGS)
