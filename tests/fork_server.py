"""Start Python programs by forking a process that has imported everything they need.

A program of ours spends two seconds of processor time on importing Django, Celery and the apps, and the
tests start hundreds of programs. The fork server imports all of it once; each program is a
fork of it, in a session, an environment and a working directory of its own, which reads Django's
settings anew and ends as any process does: by a signal, by `kill -9` or with an exit code.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Protocol

from queuemgr.base.process_end import end_process

REPOSITORY = Path(__file__).resolve().parents[1]
MODULES = (
    "celery.apps.beat", "celery.apps.worker", "celery.bin.celery", "celery.concurrency.prefork",
    "celery.concurrency.solo", "celery.concurrency.thread", "celery.worker.consumer",
    "django.core.management.commands.migrate", "django.db.backends.postgresql.base",
    "django.db.backends.sqlite3.base", "kombu.transport.redis", "pipeline.tasks", "psycopg_pool",
)  # fmt: skip
PACKAGES = ("base", "flows", "models", "scheduling", "lifecycle", "reporting", "operations", "worker",
            "cli", "management")  # fmt: skip
"""The packages of queuemgr of which every module is imported: what workers, beat and commands run."""

MOST_BYTES = 100_000
"""A request, with all environment variables of the program."""

NUMBER = struct.Struct("i")


class File(Protocol):
    """A file, a pipe or a socket."""

    def fileno(self) -> int: ...


class ForkServer:
    """The server, as its client sees it; `start` replaces `subprocess.Popen`."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
                cwd=REPOSITORY, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._popen.pid

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], files: Sequence[File]
    ) -> ForkedProcess:
        """Start `python arguments…` with these as standard input, output and error."""
        request = json.dumps([list(arguments), dict(environment)]).encode()
        status, theirs = socket.socketpair()
        with theirs:
            passed = [*(file.fileno() for file in files), theirs.fileno()]
            socket.send_fds(self._control, [request], passed)
        return ForkedProcess(list(arguments), status)

    def start_piped(self, arguments: Sequence[str], environment: Mapping[str, str]) -> PipedProcess:
        """Start it with nothing as standard input, its output and its errors to be read from pipes."""
        (out, its_out), (err, its_err) = os.pipe(), os.pipe()
        with open(os.devnull) as nothing, open(its_out, "wb") as its, open(its_err, "wb") as its_errors:
            started = self.start(arguments, environment, [nothing, its, its_errors])
        return PipedProcess(started, open(out, "rb"), open(err, "rb"))

    def close(self) -> None:
        """End the server; programs still running stay."""
        self._control.close()
        self._popen.wait()


class ForkedProcess:
    """A program the server has started, with the part of `subprocess.Popen` that tests use."""

    returncode: int | None = None
    """The exit code, once polled after its end; negative: the signal that ended it."""

    def __init__(self, args: list[str], status: socket.socket) -> None:
        self.args, self._status = args, status
        self.pid = self._number()

    def poll(self) -> int | None:
        return self._ended(within=0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(within=timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, within: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], within)[0]:
            self.returncode = self._number()
            self._status.close()
        return self.returncode

    def _number(self) -> int:
        """The next number of the server's: first the process id, then the exit code."""
        [number] = NUMBER.unpack(self._status.recv(NUMBER.size))
        return int(number)


@dataclass
class PipedProcess:
    """A program the server has started, and the pipes its output and its errors come from."""

    process: ForkedProcess
    stdout: BufferedReader
    stderr: BufferedReader

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        """What it has printed and its errors, after its end."""
        with ThreadPoolExecutor(2) as pool, self.stdout, self.stderr:
            out, err = pool.map(BufferedReader.read, [self.stdout, self.stderr])
        self.process.wait(timeout)
        return out, err


# The server itself


def serve(control: socket.socket) -> list[str] | None:
    """Start what the client asks for until it hangs up. Returns in the server at the end, with
    nothing, and in every program at once, with its arguments."""
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data:
                    _report_end(selector, key)
                elif (arguments := _forked(selector, control)) is not None:
                    return arguments or None


def _forked(selector: selectors.BaseSelector, control: socket.socket) -> list[str] | None:
    """Fork for one request. Returns the arguments in the child; nothing in the server, or an empty
    list when the client has hung up."""
    request, passed, _, _ = socket.recv_fds(control, MOST_BYTES, 4)
    if not request:
        return []
    arguments, environment = json.loads(request)
    *files, status = passed
    if pid := os.fork():
        os.write(status, NUMBER.pack(pid))
        selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))
        for file in files:
            os.close(file)
        return None
    _close_what_is_the_servers(selector, control, status)
    _become(environment, files)
    return list(arguments)


def _close_what_is_the_servers(selector: selectors.BaseSelector, control: socket.socket, status: int) -> None:
    for key in list(selector.get_map().values()):
        if key.data:
            os.close(key.fd)
            os.close(key.data[1])
    control.close()
    os.close(status)


def _become(environment: Mapping[str, str], files: Sequence[int]) -> None:
    """What `exec` and `start_new_session` would have done."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update({"DJANGO_SETTINGS_MODULE": "project.settings", **environment})


def _report_end(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    pid, status = key.data
    selector.unregister(key.fd)
    os.close(key.fd)
    _, ended = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # nobody waits for it
        os.write(status, NUMBER.pack(os.waitstatus_to_exitcode(ended)))
    os.close(status)


def import_everything() -> None:
    """Import the programs' modules, for settings that lead nowhere; nothing is opened or started."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
    with tempfile.TemporaryDirectory() as nowhere:
        os.environ["SLUICE_DATA_DIR"] = nowhere
        import django

        django.setup()
        for name in MODULES:
            importlib.import_module(name)
        for name in PACKAGES:
            package = importlib.import_module(f"queuemgr.{name}")
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def read_settings_anew() -> None:
    """Let Django read its settings from the environment this process has now."""
    from django.conf import settings
    from django.db import connections
    from django.utils.functional import empty

    from project.apps import COLLECT_AFTER
    from queuemgr.base import process_state, sqlite_options
    from queuemgr.worker.celery_app import celery_app
    from queuemgr.worker.celery_wiring import hook_into

    process_state.reset_all()
    sys.modules.pop("project.settings")
    settings._wrapped = empty
    vars(connections).pop("settings", None)
    connections.__init__()  # type: ignore[misc]  # as a new process has them
    sqlite_options.complete_options()
    hook_into(celery_app())
    gc.set_threshold(*COLLECT_AFTER)  # as the project does once its apps are ready


def without_options(arguments: list[str]) -> list[str]:
    """The program and its arguments, as `sys.argv` will have them but for the program's path."""
    while arguments[0] == "-W":
        arguments = arguments[2:]
    return arguments[1:] if arguments[0] == "-m" else arguments


def run(arguments: list[str]) -> None:
    """Run what `python arguments…` would: options `-W`, then `-m module`, `-c code` or a file."""
    while arguments[0] == "-W":
        warnings.simplefilter(arguments[1])  # type: ignore[arg-type]  # of a command line
        arguments = arguments[2:]
    kind, *rest = arguments
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = [kind, *rest[1:]]
        exec(rest[0], {"__name__": "__main__"})
    else:
        sys.argv = arguments
        runpy.run_path(kind, run_name="__main__")


def main() -> None:
    import_everything()
    arguments = serve(socket.socket(fileno=int(sys.argv[1])))
    if arguments is not None:
        sys.argv = without_options(arguments)  # settings look at it
        read_settings_anew()
        code: object = None
        try:
            run(arguments)
        except SystemExit as ended:
            code = ended.code
        end_process(code)


if __name__ == "__main__":
    main()
