"""Runs blocks of many pages in one process of a documented project: Python as at the prompt of `manage.py
shell`, its own commands as `manage.py` does, and anything else in bash. Each page begins with an empty
database.

Runs in the project's environment: `manage.py shell -c "from documented_shell import main; main()"` is given
the blocks on standard input, and writes what happened.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from django.core.management import ManagementUtility, call_command
from django.db import connections

MANAGE = "python manage.py "
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FILE, COPY = Path("db.sqlite3"), Path("copy-of-db.sqlite3")


def main() -> None:
    from documented_scenes import SCENES  # type: ignore[import-not-found]  # beside this file, in the project

    pages = json.load(sys.stdin)
    _close()
    FILE.unlink()
    call_command("migrate", verbosity=0)
    _close()
    shutil.copy(FILE, COPY)
    report: dict[str, list[dict[str, Any]]] = {}
    for page, blocks in pages.items():
        _close()
        shutil.copy(COPY, FILE)
        names: dict[str, Any] = {"__name__": "shop.tasks"}
        report[page] = [_run(block, names, SCENES) for block in blocks]
    Path(os.environ["DOCUMENTED_REPORT"]).write_text(json.dumps(report))


def _close() -> None:
    connections.close_all()
    for end in ("-wal", "-shm"):
        FILE.with_name(FILE.name + end).unlink(missing_ok=True)


def _run(block: dict[str, Any], names: dict[str, Any], scenes: Any) -> dict[str, Any]:
    """What went wrong, and how each command ended: its exit code and what it printed."""
    try:
        if block["given"]:
            scenes[block["given"]]()
        if block["language"] == "python":
            _execute(block["text"], names)
        elif block["language"] == "pycon":
            return {"wrong": _doctest(block["text"], names), "ended": []}
        return {"wrong": "", "ended": [_type(command) for command in block["commands"]]}
    except Exception:
        return {"wrong": traceback.format_exc(), "ended": []}


def _execute(text: str, names: dict[str, Any]) -> None:
    exec(compile(ast.parse(text), "a page", "exec"), names)


def _doctest(text: str, names: dict[str, Any]) -> str:
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest(text, names, "page", None, 0)
    test.globs = names
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(test, out=said.append, clear_globs=False)
    return "".join(said)


def _type(command: str) -> tuple[int, str]:
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    if command.startswith(MANAGE) and not {"|", ">", "<", "&&"} & set(words):
        return _manage(words[1:])
    done = subprocess.run(
        ["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout


def _manage(arguments: list[str]) -> tuple[int, str]:
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            ManagementUtility(arguments).execute()
        except SystemExit as end:
            code = int(end.code or 0)
    return code, said.getvalue()
