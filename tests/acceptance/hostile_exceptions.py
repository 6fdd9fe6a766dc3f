"""Exceptions of a hostile application: reading them raises, exits, recurses, or yields nonsense."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from queuemgr import StepFailed
from queuemgr.base.errors import SluiceError


class NoInit(StepFailed):
    def __init__(self) -> None:
        """Does not call that of its base, as is easily forgotten."""


def _raise_value_error(*args: Any) -> NoReturn:
    raise ValueError("no attribute for you")


def _recurse(*args: Any) -> Any:
    return _recurse(*args)


EFFECTS: Mapping[str, Callable[..., Any]] = {
    "raises": _raise_value_error,
    "exits": lambda *args: sys.exit(3),
    "wrong-type": lambda *args: {1: b"2"},
    "recurses": _recurse,
}
"""What reading an attribute of an exception, or calling its method, does."""

WELL = {"kind": "network", "message": "m", "retry_after": None, "limit": ""}
OF_ANY = (
    "__class__",
    "__cause__",
    "__context__",
    "__traceback__",
    "__notes__",
    "__dict__",
    "sqlstate",
    "code",
)
METHODS = ("__str__", "__repr__", "__bool__", "__len__", "__eq__", "__getattribute__", "__format__")
OF_CLASSES = ("__name__", "__module__", "__mro__", "__instancecheck__", "__subclasscheck__")


def _hostile(base: type[BaseException], members: dict[str, Any], of_class: dict[str, Any]) -> BaseException:
    metaclass = type("Meta", (type,), of_class)
    error: BaseException = metaclass("Hostile", (base,), {"__init__": lambda self: None, **members})()
    return error


def hostile_exceptions() -> dict[str, BaseException]:
    """Each attribute of an exception that the queue, logging or Python may read, with each effect."""
    found: dict[str, BaseException] = {"NoInit": NoInit()}
    for effect, does in EFFECTS.items():
        for name in WELL:
            given = {
                "kind": "network",
                "message": "m",
                "retry_after": None,
                "limit": "",
                name: property(does),
            }
            found[f"StepFailed.{name}-{effect}"] = _hostile(StepFailed, given, {})
        for name in OF_ANY:
            found[f"Exception.{name}-{effect}"] = _hostile(Exception, {name: property(does)}, {})
        for name in METHODS:
            found[f"Exception.{name}()-{effect}"] = _hostile(Exception, {name: does}, {})
        for name in OF_CLASSES:
            value = does if name.endswith("check__") else property(does)
            found[f"class.{name}-{effect}"] = _hostile(Exception, {}, {name: value})
        found[f"SluiceError.__str__()-{effect}"] = _hostile(SluiceError, {"__str__": does}, {})
        found[f"SystemExit.code-{effect}"] = _hostile(SystemExit, {"code": property(does)}, {})
    del found["class.__subclasscheck__-recurses"]  # a fatal error of CPython 3.11 as soon as it is raised
    return found


HOSTILE_EXCEPTIONS = hostile_exceptions()
