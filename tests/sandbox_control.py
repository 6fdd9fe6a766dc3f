"""The escapes tried by a process that has a terminal and leads neither its session nor its group, so that the
kernel itself has no reason to refuse them: without the sandbox, or in it as another user.

Usage: sandbox_control.py free|confined JOB, with a terminal as standard input. Prints a line of JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import sys
import tempfile
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.steps.confinement.confine import confine
from tests.sandbox_escapes import ATTEMPTS, lines, outcome

SECONDS = 10
NOBODY = 65534


def main(how: str, job: dict[str, Any]) -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    "loaded before its file is out of reach".encode("idna")
    print(in_a_process(lambda: json.dumps(confined(job))) if how == "confined" else json.dumps(free(job)))


def confined(job: dict[str, Any]) -> list[Any]:
    """What the system lacks, and what came of each attempt."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    lacks = confine([])
    return [lacks, {line["attempt"]: line["outcome"] for line in list(lines(job))[1:]}]


def free(job: dict[str, Any]) -> list[Any]:
    """Each attempt in a process of its own, which it may replace or damage, with all files as they were; the
    parent of that process is the one that a parser would attack."""
    job = {**job, "parent": os.getpid()}
    with tempfile.TemporaryDirectory() as kept:
        copy_files(Path(job["data"]), Path(kept))
        said = {}
        for name, attempt in ATTEMPTS.items():
            said[name] = in_a_process(lambda attempt=attempt: outcome(attempt, job))
            copy_files(Path(kept), Path(job["data"]))
    return [[], said]


def copy_files(source: Path, target: Path) -> None:
    """Make this directory like that one, but for sockets, which stay."""
    for path in target.iterdir():
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        elif not path.is_socket():
            path.unlink()
    for path in source.iterdir():
        if path.is_dir() and not path.is_symlink():
            (target / path.name).mkdir()
        elif not path.is_socket():
            shutil.copy2(path, target / path.name, follow_symlinks=False)


def in_a_process(work: Callable[[], str]) -> str:
    """What the work returns in a forked process: `done`, if that became another program."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = b""
        try:
            said = f"{work()}\n".encode()
        except BaseException as error:
            said = f"raised {error!r}\n".encode()
        finally:
            while said:
                said = said[os.write(writing, said) :]
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        if not select.select([pipe], [], [], SECONDS)[0]:
            os.kill(child, 9)
        first = pipe.readline().decode().strip()
    _, status = os.waitpid(child, 0)
    return first or ("done" if status == 0 else f"ended with status {status}")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
