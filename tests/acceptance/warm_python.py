"""Python of a virtual environment that has imported Django, Celery and the wheel already.

Each `python …` and `celery …` of a documented project starts as a fork of one process, with the terminal, the
directory and the variables of its caller, and reads the project's settings and apps as a new one does: what
these import is all that is imported. A start then takes a tenth of a second of processor time instead of two.

Run in the environment, of which it needs nothing but the wheel: `python warm_python.py DIRECTORY`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import socket
import struct
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

SOCKET = "python.sock"
PROGRAMS: dict[str, list[str]] = {"python": [], "celery": ["-m", "celery"]}
NUMBER = struct.Struct("i")
CONTRIB = ("admin", "auth", "contenttypes", "sessions", "messages", "staticfiles")
MODULES = (
    "celery.apps.beat", "celery.apps.worker", "celery.bin.celery", "celery.concurrency.solo",
    "celery.concurrency.thread", "celery.worker.consumer", "django.contrib.admin.checks",
    "django.core.management.commands.check", "django.core.management.commands.migrate",
    "django.core.management.commands.shell", "django.core.management.commands.test",
    "django.db.backends.sqlite3.base", "kombu.transport.filesystem", "kombu.transport.redis",
)  # fmt: skip
PACKAGES = ("base", "flows", "models", "scheduling", "lifecycle", "reporting", "operations", "schedules",
            "worker", "tasks", "cli", "management")  # fmt: skip
"""The packages of queuemgr of which every module is imported: what workers and commands run."""

EXTRAS = ("django.db.backends.postgresql.base", "psycopg_pool")
"""Imported where the environment has them."""

CLIENT = """#!{python} -IS
import json, os, signal, socket, struct, sys

server = socket.socket(socket.AF_UNIX)
server.connect({socket!r})
request = json.dumps([{arguments!r} + sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [struct.pack("i", len(request))], [0, 1, 2])
server.sendall(request)
pid = struct.unpack("i", server.recv(4))[0]
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: os.kill(pid, number))
ended = server.recv(4)
code = struct.unpack("i", ended)[0] if ended else 1
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def main(directory: Path) -> None:
    sys.path.pop(0)  # the directory of this file
    import_everything()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(directory / SOCKET))
        listening.listen()
        programs = directory / "bin"
        programs.mkdir()
        for name, arguments in PROGRAMS.items():
            client = CLIENT.format(python=sys.executable, socket=str(directory / SOCKET), arguments=arguments)
            unfinished = programs / f"{name}.new"
            unfinished.write_text(client)
            unfinished.chmod(0o755)
            unfinished.rename(programs / name)
        arguments = serve(listening)
    sys.executable = str(programs / "python")  # what the program starts is warm, too
    forget_settings()
    code: object = None
    try:
        run(arguments)
    except SystemExit as ended:
        code = ended.code
    from queuemgr.base.process_end import end_process

    end_process(code)


# The server


def serve(listening: socket.socket) -> list[str]:
    """Fork for whoever asks, until the standard input ends. Returns in the fork, with its arguments."""
    with selectors.DefaultSelector() as selector:
        selector.register(listening, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sys.stdin:  # the tests have ended, however they did
                    sys.exit()
                if key.data:
                    _end(selector, key)
                elif arguments := _fork(selector, listening.accept()[0]):
                    return arguments


def _fork(selector: selectors.BaseSelector, caller: socket.socket) -> list[str]:
    """Fork for a caller. Returns the arguments in the child, nothing in the server."""
    size, files, _, _ = socket.recv_fds(caller, NUMBER.size, 3)
    arguments, cwd, environment = json.loads(_receive(caller, NUMBER.unpack(size)[0]))
    if pid := os.fork():
        for file in files:
            os.close(file)
        caller.sendall(NUMBER.pack(pid))
        known = (pid, caller)
        selector.register(os.pidfd_open(pid), selectors.EVENT_READ, known)
        selector.register(caller, selectors.EVENT_READ, known)
        return []
    for key in list(selector.get_map().values()):
        if key.data:  # of another program
            os.close(key.fd) if isinstance(key.fileobj, int) else key.data[1].close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    caller.close()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    return list(arguments)


def _receive(caller: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        received += caller.recv(size - len(received))
    return received


def _end(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """A program has ended: say so to its caller. Or a caller has: end its program."""
    pid, caller = key.data
    if key.fileobj is caller:
        selector.unregister(caller)
        with suppress(ProcessLookupError):
            os.kill(pid, 9)
        return
    selector.unregister(key.fd)
    os.close(key.fd)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(OSError):  # nobody waits for it
        caller.sendall(NUMBER.pack(code))
    with suppress(KeyError):
        selector.unregister(caller)
    caller.close()


# The programs


def import_everything() -> None:
    """Import what a new project of `startproject` imports, with the queue; no app becomes ready."""
    import django
    from django.apps import AppConfig
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    from queuemgr.apps import QueuemgrConfig

    settings.configure(
        INSTALLED_APPS=[*(f"django.contrib.{name}" for name in CONTRIB), "queuemgr"], USE_TZ=True,
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.devnull}},
    )  # fmt: skip
    becomes_ready = QueuemgrConfig.ready
    QueuemgrConfig.ready = AppConfig.ready  # type: ignore[method-assign]  # it would find flows of no project
    django.setup()
    QueuemgrConfig.ready = becomes_ready  # type: ignore[method-assign]
    for name in MODULES:
        importlib.import_module(name)
    for name in PACKAGES:
        package = importlib.import_module(f"queuemgr.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with suppress(ImproperlyConfigured):  # it needs an app that the project may not have
                importlib.import_module(module.name)
    for name in EXTRAS:
        with suppress(ImportError, ImproperlyConfigured):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def forget_settings() -> None:
    """Have Django read the settings and the apps of the project this is run in, as in a new process."""
    from django.apps import apps
    from django.conf import settings
    from django.db import connections
    from django.utils.functional import empty

    from queuemgr.base import process_state

    process_state.reset_all()
    settings._wrapped = empty
    apps.clear_cache()
    apps.app_configs.clear()
    apps.apps_ready = apps.models_ready = apps.ready = apps.loading = False
    apps.ready_event.clear()
    vars(connections).pop("settings", None)
    connections.__init__()  # type: ignore[misc]  # as a new process has them


def run(arguments: list[str]) -> None:
    """Run what `python arguments…` would: `-m module`, `-c code` or a file."""
    kind, *rest = arguments
    if action := os.environ.get("PYTHONWARNINGS", ""):
        warnings.simplefilter(action)  # type: ignore[arg-type]  # one word, in our tests
    sys.path[:0] = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(":"))]
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv = [kind, *rest[1:]]
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(rest[0], names)
    else:
        sys.argv = arguments
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
