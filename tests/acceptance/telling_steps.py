"""Steps that fail in many ways and put into their failures all the secrets their process can find."""

from __future__ import annotations

import html
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from queuemgr import Done, Failed, Skipped, Snoozed, StepFailed, Work

JOB = "telling.job"
WORTH_TELLING = re.compile(r"marked|password|secret|key|token|broker|database|redis://|postgres://", re.I)


@cache
def told() -> list[dict[str, str]]:
    """What this process knows that may hold a secret, a few things at a time."""
    found = [(name, text) for name, text in _leaves("", _everything()) if WORTH_TELLING.search(name + text)]
    return [dict(found[start : start + 3]) for start in range(0, len(found), 3)]


def _everything() -> dict[str, Any]:
    """Its environment, settings, configuration and files, secrets unwrapped."""
    from celery import current_app
    from django.conf import settings

    from queuemgr.base.program_secrets import all_groups
    from queuemgr.base.secret_environment import for_same_program

    directory = Path(settings.SLUICE_DATA_DIR)
    files = [path for name in ("secret-key", "*-password", "private-broker") for path in directory.glob(name)]
    child = [sys.executable, "-c", "import os, json; print(json.dumps(dict(os.environ)))"]
    return {
        "environment": dict(os.environ),
        "of a child": json.loads(subprocess.run(child, capture_output=True, text=True, check=True).stdout),
        "of a restart": for_same_program(),
        "settings": {name: str(getattr(settings, name)) for name in dir(settings) if name.isupper()},
        "celery": {name: str(value) for name, value in current_app.conf.table(censored=False).items()},
        "groups": {
            f"{group.__name__}.{name}": _unwrapped(value)
            for group in all_groups() for name, value in group.load()
        },
        "files": {path.name: path.read_text() for path in files},
    }  # fmt: skip


def _unwrapped(value: Any) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for inner_name, inner in value.items():
            yield from _leaves(f"{name} {inner_name}", inner)
    else:
        yield name, str(value)


def _raise(error: BaseException) -> None:
    raise error


def _raise_a_group(text: str) -> None:
    try:
        raise KeyError(text)
    except KeyError as error:
        error.add_note(text)
        raise ExceptionGroup(text, [ValueError(text), OSError(5, text)]) from error


WAYS: tuple[Callable[[str], Any], ...] = (
    lambda text: _raise(RuntimeError(text)),
    _raise_a_group,
    lambda text: Failed("network", text),
    lambda text: _raise(StepFailed("bad_answer", text)),
    lambda text: sys.exit(text),
    lambda text: Snoozed(3600, text),
    lambda text: Skipped(text),
    lambda text: Done({"told": text}, result=[text, {text[:200]: text}]),
    lambda text: Done(store=lambda: _raise(OSError(text))),
    lambda text: Done({"rule": text}),
)
FORMS: tuple[Callable[[Any], str], ...] = (
    repr, json.dumps, lambda value: html.escape(repr(value)), lambda value: repr(str(value).encode()),
)  # fmt: skip


numbers = count()


def rule(context: Any) -> Any:
    """A rule that fails with what the step before it had found."""
    if "rule" in context:
        raise RuntimeError(context["rule"])
    return False


def fail(*arguments: Any) -> Any:
    """A callback or a job that tells another thing at each call."""
    raise RuntimeError(text_of(next(numbers)))


def text_of(number: int) -> str:
    parts = told()
    return FORMS[number // len(WAYS) % len(FORMS)](parts[number % len(parts)])


def tell(work: Work) -> Any:
    number = int(work.inputs["number"])
    text = text_of(number)
    logging.getLogger("telling").warning("%s", text)
    print(text)
    sys.stderr.write(f"{text}\n")
    return WAYS[number % len(WAYS)](text)
