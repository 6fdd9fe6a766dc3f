"""Which functions are tested with hostile texts, and how each is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from tests.unit.untrusted_text.functions import ROOT, Function, functions_in, ways_to_call
from tests.unit.untrusted_text.left_out import LEFT_OUT
from tests.unit.untrusted_text.other_modules import OTHER_MODULES
from tests.unit.untrusted_text.paper_calls import PAPER_CALLS
from tests.unit.untrusted_text.queue_calls import QUEUE_CALLS

PACKAGES = ("queuemgr", "pipeline", "project")

CALLS: Mapping[str, Callable[[str], Any]] = {**PAPER_CALLS, **QUEUE_CALLS}
"""How a function is called that needs more than a text; also some that take what holds one."""


def modules() -> list[Path]:
    """All but those named."""
    named = {name for names in OTHER_MODULES.values() for name in names.split()}
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return sorted(
        path
        for path in paths
        if "migrations" not in path.parts and str(path.relative_to(ROOT).with_suffix("")) not in named
    )


def reason_left_out(function: Function) -> str:
    return next((why for pattern, why in LEFT_OUT.items() if fnmatch(function.id, pattern)), "")


def special_calls(function: Function) -> list[Callable[[str], Any]]:
    return [call for pattern, call in CALLS.items() if fnmatch(function.id, pattern)]


def calls_of(function: Function) -> list[Callable[[str], Any]]:
    """Raises `LookupError` for a function that needs an entry above."""
    return special_calls(function) or list(ways_to_call(function))


@cache
def all_functions() -> list[Function]:
    """Those that are found, and those named above that take what holds a text."""
    found = [function for path in modules() for function in functions_in(path)]
    known = {function.id for function in found}
    others = [name for name in CALLS if name not in known and "*" not in name]
    return found + [Function(*name.split(":"), ()) for name in others]


def functions_to_test() -> list[Function]:
    return [each for each in all_functions() if special_calls(each) or not reason_left_out(each)]
