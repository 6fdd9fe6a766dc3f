"""Limits as a task states them: `"host:{host}"` names a key by the arguments of a call.

limits=["host:{host}"]                        a key; what it allows is stated elsewhere
limits={"host:{host}": 2}                     two at once for each host
limits={"openai": "50/m"}                     fifty starts a minute in all
limits={"tenant:{tenant}": {"daily_budget": 1000}}
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from queuemgr.base.column_sizes import MAX_LIMIT_KEY
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.safe_text import excerpt
from queuemgr.scheduling.stated_fields import fields_of

StatedLimits = Iterable[str] | Mapping[str, "int | str | Mapping[str, Any]"]


@dataclass(frozen=True)
class KeyTemplate:
    """A text with names of parameters in braces."""

    parts: tuple[tuple[str, str], ...]
    """Each a literal text and the name of the parameter behind it, if any."""

    @property
    def pattern(self) -> str:
        """The name of the limit that holds for every key: `host:*`, or the text itself if it names none."""
        fixed = ""
        for literal, name in self.parts:
            fixed += literal
            if name:
                return f"{fixed}*"
        return fixed

    def fill(self, arguments: Mapping[str, Any]) -> str:
        """The key of a call. White space of a value is written as `%20` and the like: a key has none."""
        return "".join(
            literal + (_without_blanks(str(arguments[name])) if name else "") for literal, name in self.parts
        )


def parse_template(task: str, text: str, parameters: Collection[str]) -> KeyTemplate:
    """Raises `ConfigurationError` for a text that names no parameter of the task, or begins with one."""
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ConfigurationError(f"{task}: limit {text!r} has braces that do not match ({error})") from None
    for _, name, format_spec, conversion in fields:
        if name is not None and (name not in parameters or format_spec or conversion):
            known = ", ".join(parameters) or "none"
            raise ConfigurationError(f"{task}: limit {text!r} names {name!r}; its parameters: {known}")
    parts = tuple((literal, name or "") for literal, name, _, _ in fields)
    if not parts or not parts[0][0]:
        raise ConfigurationError(
            f"{task}: limit {text!r} must begin with a word of its own, as in 'host:{{host}}': "
            "other tasks have limits, too"
        )
    return KeyTemplate(parts)


def values_of(task: str, stated: StatedLimits) -> dict[str, Mapping[str, Any]]:
    """The field values that each template states: none where it only names a key.

    Raises `ConfigurationError` for a value that is neither a number, a rate nor fields of a limit.
    """
    if isinstance(stated, str):
        raise ConfigurationError(f"{task}: limits={stated!r} is a text; write a list: [{stated!r}]")
    if not isinstance(stated, Iterable):
        raise ConfigurationError(
            f"{task}: limits={excerpt(stated)} names no limit; write what it limits, as {{'{task}': 2}}"
        )
    if not isinstance(stated, Mapping):
        stated = {text: {} for text in stated}
    for text, value in stated.items():
        _check_name(task, text)
        if value == 0 and not isinstance(value, bool):
            raise ConfigurationError(f"{task}: limit {text!r} is 0, which limits nothing; write 1 or more")
    return {text: fields_of(value, f"{task}: limit {text!r}") for text, value in stated.items()}


def _check_name(task: str, text: Any) -> None:
    if not isinstance(text, str):
        raise ConfigurationError(
            f"{task}: limit {excerpt(text)} is no name; write a text, as 'host:{{host}}'"
        )
    if any(letter.isspace() for letter in re.sub(r"\{[^}]*\}", "", text)):
        raise ConfigurationError(f"{task}: limit {text!r} has white space in it; use none")


def _without_blanks(value: str) -> str:
    """Of a value longer than any key, only so much that the key is refused for its length."""
    return "".join(
        quote(letter) if letter.isspace() or not letter.isprintable() else letter
        for letter in value[: MAX_LIMIT_KEY + 1]
    )
