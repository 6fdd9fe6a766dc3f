"""Read a PDF in a small child process that can be killed, and keep the pages it has finished.

A crafted file of a few kilobytes can cost a PDF library minutes or gigabytes, and some crash PDFium,
which would take the worker down. So every document is opened in a process of its own (not a fork of the
worker, whose address space would count against the limit, but of a small template: `warm_start.py`) that
limits itself and writes one JSON line per page. It is killed with its whole process group when it exceeds a
limit, when the abort signal is set, or when the worker dies.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal as signals
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from pipeline.steps.confinement import confine  # compiled here once: the children may write no file
from pipeline.steps.pdf import warm_start
from pipeline.steps.pdf.drawing_time import OVER
from pipeline.steps.pdf.how_it_ended import ChildProcess
from queuemgr import AbortSignal
from queuemgr.steptools.subprocess_group import THREAD_VARIABLES

Line = dict[str, Any]

CHILD = Path(__file__).with_name("child.py")

PROBE = Path(confine.__file__).with_name("probe.py")

START_SECONDS = 10.0
"""Extra time for the first line: imports take 0.2 s (pypdf) to 3 s (OCR), more under load."""

MAX_RESTARTS = 5
"""New children after pages that ended theirs; then the remaining pages stay unread."""

CHUNK_BYTES = 1 << 16

CHARACTER_BYTES = 6
"""The most bytes that JSON needs for one character."""

PROTOCOL_BYTES = 1 << 20
"""Bytes for everything but the text in the child's lines."""

PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The only environment variables a parser of hostile files gets: no API key is among them."""

SENTENCES = {
    "page_seconds": "it exceeded the time limit of a page",
    "document_seconds": "the document exceeded its time limit",
    "drawing_seconds": OVER,
    "output_bytes": "the document contains more text than allowed",
    "memory": "it needed more memory than allowed",
    "crashed": "it crashed the program reading it",
}


@dataclass(frozen=True)
class ResourceLimits:
    """The limits of one document. Seconds are wall time; `memory_bytes` is address space. `threads` may
    compute at once; others are started only where a library `starts_threads`."""

    page_seconds: float
    document_seconds: float
    memory_bytes: int
    output_bytes: int
    threads: int = 1
    starts_threads: bool = False


@dataclass(frozen=True)
class Ending:
    """Why a child ended: "" if it had finished, else a key of `SENTENCES`."""

    reason: str = ""
    detail: str = ""


@dataclass
class ReadResult:
    """What was read of a document: a line per page read, the ending per page that ended its child.

    `refused`: the child's refusal of the whole file (`encrypted`, `damaged`); `stopped`: the ending
    that left pages unread; `info`: the document's own metadata.
    """

    count: int | None = None
    lines: dict[int, Line] = field(default_factory=dict)
    failed: dict[int, Ending] = field(default_factory=dict)
    refused: Line | None = None
    stopped: Ending = Ending()
    info: dict[str, str] = field(default_factory=dict)

    def add(self, line: Line) -> None:
        """Record one line of the child."""
        if "page" in line:
            self.lines[int(line["page"])] = line
        elif "count" in line:
            self.count = int(line["count"])
        elif "info" in line:
            self.info = {str(name): str(value) for name, value in dict(line["info"]).items()}
        elif "refused" in line:
            self.refused = line


class LimitExceeded(Exception):
    """A limit enforced by the parent was exceeded; `reason` is a key of `SENTENCES`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Child:
    """One child process and its process group, killed when the block ends."""

    def __init__(self, script: Path, job: Mapping[str, Any], limits: ResourceLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._reaped = False
        self._process = started(script, limits)
        self._input = cast(IO[bytes], self._process.stdin)
        self._output = cast(IO[bytes], self._process.stdout)
        self.pid = self._process.pid
        self._request = request_of(job, limits)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def kill(self) -> None:
        """SIGKILL the group, from any thread; does nothing once it is reaped (its id may be reused)."""
        with self._lock:
            if not self._reaped:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signals.SIGKILL)

    def close(self) -> None:
        """Kill what is left, reap it, close the pipes."""
        self.kill()
        self._process.ended()
        with self._lock:
            self._reaped = True
        for pipe in (self._input, self._output):
            with suppress(BrokenPipeError):
                pipe.close()

    def ending(self) -> Ending:
        """Why it ended by itself, before it had finished."""
        self.close()
        ended = self._process.ended()
        reason = "memory" if ended.ran_out_of(self._limits.memory_bytes) else "crashed"
        return Ending(reason, ended.name)

    def lines(self, deadline: float) -> Iterator[Line]:
        """Each line as it arrives. Raises `LimitExceeded`; ends when the child closes its output."""
        self._send_request()
        pieces: list[bytes] = []
        for chunk in self._chunks(deadline):
            head, *others = chunk.split(b"\n")
            pieces.append(head)
            for piece in others:
                self.allow(self._limits.page_seconds)
                yield parsed(b"".join(pieces))
                pieces = [piece]

    def allow(self, seconds: float) -> None:
        """The next line may take so many seconds from now."""
        self._page_by = time.monotonic() + seconds

    def _send_request(self) -> None:
        """Write the job and leave the pipe open: the child exits when it is closed."""
        with suppress(BrokenPipeError):
            self._input.write(self._request.encode() + b"\n")
            self._input.flush()

    def _chunks(self, deadline: float) -> Iterator[bytes]:
        """Raw output, each wait bounded by the time limits of page and document."""
        output, room = self._output.fileno(), self._limits.output_bytes
        self.allow(self._limits.page_seconds + START_SECONDS)
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while True:
                self._wait(selector, deadline)
                chunk = os.read(output, CHUNK_BYTES)
                if not chunk:
                    return
                room -= len(chunk)
                if room < 0:
                    raise LimitExceeded("output_bytes")
                yield chunk

    def _wait(self, selector: selectors.BaseSelector, deadline: float) -> None:
        by = min(self._page_by, deadline)
        if not selector.select(max(0.0, by - time.monotonic())):
            raise LimitExceeded("document_seconds" if by == deadline else "page_seconds")


def started(script: Path, limits: ResourceLimits) -> warm_start.WarmChild | ChildProcess:
    """The process: forked from the template if it computes in one thread, else a new interpreter."""
    environment = child_environment(limits.threads)
    if warm_start.IS_USABLE and limits.threads == 1 and not limits.starts_threads:
        return warm_start.WarmChild(script, environment)
    return ChildProcess(
        [sys.executable, "-I", "-B", str(CHILD), str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def child_environment(threads: int) -> dict[str, str]:
    """The child's environment: search paths, the locale, and the number of threads."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return passed_on | dict.fromkeys(THREAD_VARIABLES, str(threads))


def request_of(job: Mapping[str, Any], limits: ResourceLimits) -> str:
    """The line that a child reads first; of all documents it may read the one of its job."""
    files = [job["pdf"]] if "pdf" in job else []
    more = {"files": files, "threads": limits.starts_threads or limits.threads > 1}
    return json.dumps({"limits": own_limits(limits), **more, "job": dict(job)})


def own_limits(limits: ResourceLimits) -> dict[str, int]:
    """The limits the child sets on itself; CPU time is the backup in case the parent hangs."""
    cpu = math.ceil(limits.document_seconds * limits.threads) + 5
    return {"memory_bytes": limits.memory_bytes, "cpu_seconds": cpu}


def lacking() -> tuple[str, ...]:
    """What this system lacks to confine the children, in a few words each, as one of them finds; empty if
    nothing. Raises `OSError` and `SubprocessError` where none can be started."""
    done = subprocess.run(
        [sys.executable, "-I", "-B", str(PROBE)],
        stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=START_SECONDS,
        env=child_environment(1), start_new_session=True,
    )  # fmt: skip
    return tuple(json.loads(done.stdout))


def parsed(raw: bytes) -> Line:
    """One line of the child's output. Raises `LimitExceeded("crashed")` if it is invalid."""
    try:
        line = json.loads(raw.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        raise LimitExceeded("crashed") from None
    if not isinstance(line, dict):
        raise LimitExceeded("crashed")
    return line


def read_pages(
    script: Path,
    job: Mapping[str, Any],
    limits: ResourceLimits,
    signal: AbortSignal,
    *,
    pages: Sequence[int] | None = None,
    max_pages: int = 3000,
) -> ReadResult:
    """Run `script` over `pages` (None: all, at most `max_pages`) of the document in `job`.

    A page that hangs or kills its child is recorded in `failed`, and a new child continues after it,
    within the same `document_seconds`. Raises `Aborted` when the signal is set, after killing the
    process group.
    """
    reading = ReadResult()
    deadline = time.monotonic() + limits.document_seconds
    for _ in range(MAX_RESTARTS + 1):
        left = pages_left(reading, pages, max_pages)
        if left == []:
            break
        before = len(reading.lines)
        reading.stopped = run_once(script, {**job, "pages": left}, limits, deadline, signal, reading)
        signal.raise_if_aborted()
        if ends_the_reading(reading):
            break
        blame_next_page(reading, pages, max_pages, fresh=len(reading.lines) == before)
    if pages_left(reading, pages, max_pages) == []:
        reading.stopped = Ending()
    return reading


def pages_left(reading: ReadResult, pages: Sequence[int] | None, max_pages: int) -> list[int] | None:
    """Pages neither read nor failed, in order; None if their number is not known yet."""
    if pages is None and reading.count is None:
        return None
    wanted = pages if pages is not None else range(1, min(reading.count or 0, max_pages) + 1)
    return [page for page in wanted if page not in reading.lines and page not in reading.failed]


def ends_the_reading(reading: ReadResult) -> bool:
    """Whether a new child would change nothing: finished, refused, or at a limit of the document."""
    over = reading.stopped.reason in ("", "document_seconds", "output_bytes")
    return over or reading.refused is not None or reading.count is None


def blame_next_page(reading: ReadResult, pages: Sequence[int] | None, max_pages: int, *, fresh: bool) -> None:
    """Record the page the child was reading as failed, unless earlier pages may have filled its memory."""
    if reading.stopped.reason == "memory" and not fresh:
        return
    for page in (pages_left(reading, pages, max_pages) or ())[:1]:
        reading.failed[page] = reading.stopped


def run_once(
    script: Path,
    job: Mapping[str, Any],
    limits: ResourceLimits,
    deadline: float,
    signal: AbortSignal,
    reading: ReadResult,
) -> Ending:
    """Run one child to its end, adding its lines to `reading`; returns how it ended."""
    with Child(script, job, limits) as child, signal.hooked(child.kill):
        try:
            for line in child.lines(deadline):
                if "end" in line:
                    return Ending()
                if "died" in line:
                    return died(line)
                reading.add(line)
        except LimitExceeded as limit:
            return Ending(limit.reason)
        except (TypeError, ValueError):
            return Ending("crashed", "invalid output")
        return child.ending()


def died(line: Line) -> Ending:
    """The ending as the child reports it; an unknown reason counts as a crash."""
    reason = str(line["died"])
    return Ending(reason if reason in SENTENCES else "crashed", str(line.get("detail", ""))[:200])


def output_limit(max_chars: int) -> int:
    """Bytes of output that allow for so many characters of text."""
    return CHARACTER_BYTES * max_chars + PROTOCOL_BYTES


def describe(ending: Ending) -> str:
    """The ending in words, with the technical detail if there is one."""
    sentence = SENTENCES.get(ending.reason, "")
    return f"{sentence} ({ending.detail})" if ending.detail else sentence
