"""Readers that start without their imports: forked from a template, one template for each worker process.

A template is replaced after so many children or so much time, since its children have the same layout of
memory: what an attack learns of one is true of the next.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from pipeline.steps.pdf.how_it_ended import Ended
from queuemgr.steptools import process_state

TEMPLATE = Path(__file__).with_name("template.py")

MOST_CHILDREN = 200
MOST_SECONDS = 600.0

ANSWER_SECONDS = 30.0
"""For its imports on a loaded machine; then it counts as gone."""

IS_USABLE = sys.platform == "linux"
"""Elsewhere, forking a process that has loaded libraries is not safe."""


class TemplateGone(Exception):
    """It has ended: it was idle, or killed."""


class Template:
    """A template, and how many children of it are left."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(ANSWER_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(TEMPLATE), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._lock = threading.Lock()
        self._began, self._made, self._left = time.monotonic(), 0, 0
        self.is_retired = False

    @property
    def is_used_up(self) -> bool:
        return self._made >= MOST_CHILDREN or time.monotonic() - self._began > MOST_SECONDS

    def start(self, script: str, pipes: tuple[int, int]) -> int:
        """The process id of a new child with these pipes. Raises `TemplateGone`."""
        with self._lock:
            pid = int(self._answer({"start": script}, pipes)["pid"])
            self._made += 1
            self._left += 1
            return pid

    def wait(self, pid: int) -> Ended:
        """How a child ended that has been killed, or has ended."""
        with self._lock:
            try:
                answer = self._answer({"end": pid})
                ended = Ended(int(answer["status"]), int(answer["most_bytes"]))
            except TemplateGone:
                ended = UNKNOWN
            self._left -= 1
            if self.is_retired and not self._left:
                self._close()
            return ended

    def retire(self) -> None:
        """End it once its children have ended."""
        with self._lock:
            self.is_retired = True
            if not self._left:
                self._close()

    def forget(self) -> None:
        """In a forked process, whose template it is not."""
        self._control.close()
        self._process.returncode = 0

    def _answer(self, question: dict[str, Any], pipes: tuple[int, ...] = ()) -> dict[str, Any]:
        try:
            socket.send_fds(self._control, [json.dumps(question).encode()], pipes)
            answer = self._control.recv(1024)
        except OSError as error:
            raise TemplateGone from error
        if not answer:
            raise TemplateGone
        return dict(json.loads(answer))

    def _close(self) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()


UNKNOWN = Ended(-9)
"""The end of a child whose template was killed: so was the child."""


class WarmChild:
    """A reader with its pipes, as `subprocess.Popen` has them."""

    def __init__(self, script: Path, environment: Mapping[str, str]) -> None:
        theirs_in, into = os.pipe()
        out_of, theirs_out = os.pipe()
        try:
            self._template, self.pid = _started(str(script), (theirs_in, theirs_out), environment)
        except BaseException:
            os.close(into)
            os.close(out_of)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self.stdin: IO[bytes] = os.fdopen(into, "wb")
        self.stdout: IO[bytes] = os.fdopen(out_of, "rb")

        self._ended: Ended | None = None

    def ended(self) -> Ended:
        """Wait for its end, however often it is asked for."""
        if self._ended is None:
            self._ended = self._template.wait(self.pid)
        return self._ended


_lock = threading.Lock()
_template: Template | None = None


def _started(script: str, pipes: tuple[int, int], environment: Mapping[str, str]) -> tuple[Template, int]:
    """A child, of a new template where there is none or it has ended. Raises `OSError`."""
    for _ in range(2):
        template = _current(environment)
        try:
            return template, template.start(script, pipes)
        except TemplateGone:
            _leave(template)
    raise ChildProcessError("the template of readers ended as soon as it was started")


def _current(environment: Mapping[str, str]) -> Template:
    global _template
    with _lock:
        if _template is not None and _template.is_used_up:
            _template.retire()
            _template = None
        _template = _template or Template(environment)
        return _template


def _leave(template: Template) -> None:
    """Have the next child made by another one."""
    global _template
    with _lock:
        if _template is template:
            _template = None
    template.retire()


def end() -> None:
    """End the template of this process once its children have ended."""
    if _template is not None:
        _leave(_template)


def _forget() -> None:
    """In a forked process, where the lock may be held by a thread that is not there."""
    global _lock, _template
    forgotten, _template, _lock = _template, None, threading.Lock()
    if forgotten is not None:
        with suppress(OSError):
            forgotten.forget()


process_state.register(end)
os.register_at_fork(after_in_child=_forget)
atexit.register(end)
