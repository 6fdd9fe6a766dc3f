"""A child process that does one thing to a fleet and answers: Django is set up there, not in the bench.

The question is the JSON on its command line, the answer the JSON it prints last.
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
    """Run `python -m MODULE QUESTION` and wait for its answer; raises when it fails."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, json.dumps(question)],
        env=dict(environment), cwd=ROOT, check=True, stdout=subprocess.PIPE,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def answer(verbs: Mapping[str, Callable[..., Any]]) -> None:
    """In the child: do the verb asked for, with what else was said, and print what it returns."""
    question = json.loads(sys.argv[1])
    print(json.dumps(verbs[question.pop("do")](**question)))


def set_up_django() -> None:
    """Make models importable in this process."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
