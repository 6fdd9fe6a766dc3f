"""Reads what application code raised: its attributes, its class and its text may themselves raise, exit,
recurse or be of any type.

`isinstance` is not used on it: that reads `__class__`, which an exception may define as it likes. What the
interpreter itself keeps of its type says the truth and runs no code.
"""

from __future__ import annotations

from typing import TypeGuard, TypeVar

E = TypeVar("E", bound=BaseException)


def is_raised(error: BaseException, kinds: type[E] | tuple[type[E], ...]) -> TypeGuard[E]:
    """Whether it is of one of these classes."""
    return issubclass(type(error), kinds)


def type_name(value: object) -> str:
    """The name of its class, even if its metaclass has another idea of that."""
    name: str = type.__dict__["__name__"].__get__(type(value))
    return name
