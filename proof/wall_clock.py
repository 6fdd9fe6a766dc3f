"""The wall clock of all processes of a fleet, which can be stepped ahead: a library preloaded into each adds
the seconds that stand in one file."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from proof import machine

SOURCE = Path(__file__).parent / "stepped_clock" / "step.c"


class Step(NamedTuple):
    """From this time of the real clock on, the fleet's clock is so many seconds ahead."""

    at: float
    ahead: int


class WallClock:
    """The fleet's clock. Without a C compiler it is the real one and cannot be stepped."""

    def __init__(self, directory: Path) -> None:
        self._library = directory / "step.so"
        self._file = directory / "clock"
        self.steps: list[Step] = []
        self.can_step = sys.platform == "linux" and self._built()
        if self.can_step:
            self._write(0)

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which a process follows this clock."""
        if not self.can_step:
            return {}
        return {"LD_PRELOAD": str(self._library), "PROOF_CLOCK_FILE": str(self._file)}

    def step(self, seconds: int) -> None:
        """Put the clock of every process ahead by so much more."""
        self.steps.append(Step(time.time(), self._ahead + seconds))
        self._write(self._ahead)

    def real(self, shown: float) -> float:
        """The real time at which the fleet's clock showed this."""
        ahead = 0
        for step in self.steps:
            if shown >= step.at + step.ahead:
                ahead = step.ahead
        return shown - ahead

    @property
    def _ahead(self) -> int:
        return self.steps[-1].ahead if self.steps else 0

    def _write(self, seconds: int) -> None:
        with open(self._file, "r+b" if self._file.exists() else "wb") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    def _built(self) -> bool:
        compiler = machine.compiler()
        if compiler is None:
            return False
        command = [compiler, "-O2", "-fPIC", "-shared", "-o", str(self._library), str(SOURCE)]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
