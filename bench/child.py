"""Runs one operation in a child process, so that Django is set up there and not in the benchmark.

The request is the JSON on the child's command line; the response is the last line it prints, as JSON.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench import command_line

ROOT = Path(__file__).resolve().parent.parent


def ask(module: str, environment: Mapping[str, str], **question: Any) -> Any:
    """Run `python -m MODULE REQUEST` and return its response; raises `CalledProcessError` when it fails."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, json.dumps(question)],
        env=dict(environment), cwd=ROOT, check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def request(module: str, description: str | None, **example: Any) -> dict[str, Any]:
    """In the child: the request on its command line; with `--help`, prints the help and ends."""
    line = shlex.quote(json.dumps(example))
    parser = command_line.parser(module, description, line, before="SLUICE_DATA_DIR=$(mktemp -d) ")
    parser.add_argument("request", type=json.loads, help="a JSON object: what to do, and its arguments")
    asked: dict[str, Any] = parser.parse_args().request
    return asked


def answer(request: dict[str, Any], verbs: Mapping[str, Callable[..., Any]]) -> None:
    """In the child: set up Django, call the requested function with the other arguments, and print what it
    returns."""
    set_up_django()
    print(json.dumps(verbs[request.pop("do")](**request)))


def set_up_django() -> None:
    """Make models importable in this process."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
