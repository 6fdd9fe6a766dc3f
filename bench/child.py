"""Runs one operation in a child process, so that Django is set up there and not in the benchmark.

The request is the JSON on the child's command line; the response is the last line it prints, as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def ask(module: str, environment: Mapping[str, str], **question: Any) -> Any:
    """Run `python -m MODULE REQUEST` and return its response; raises `CalledProcessError` when it fails."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, json.dumps(question)],
        env=dict(environment), cwd=ROOT, check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def answer(verbs: Mapping[str, Callable[..., Any]]) -> None:
    """In the child: call the requested function with the other arguments, and print what it returns."""
    question = json.loads(sys.argv[1])
    print(json.dumps(verbs[question.pop("do")](**question)))


def set_up_django() -> None:
    """Make models importable in this process."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
