"""How long work is the only one of its kind, and what becomes of more of it meanwhile. Plain Python.

Unique(keys=["host"])                                     one for each host that waits or runs
Unique(keys=["host"], within="1h", states="all")          one for each host and hour
Unique(keys=["host"], on_conflict="replace")              the newest payload, while it waits
Unique(keys=["index"], debounce="30s", at_most="10m")     once it has been quiet for 30 seconds
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.base.safe_text import excerpt

WAITING, UNFINISHED, ALL = 1, 2, 3
"""Which states count, as a row stores it."""

STATES: Mapping[str, int] = {"waiting": WAITING, "waiting_or_running": UNFINISHED, "all": ALL}
SKIP, REPLACE, DEBOUNCE = ON_CONFLICT = ("skip", "replace", "debounce")

MOST_CHARACTERS = 255
LONGEST = timedelta(days=3660)
"""As of any time that is set ahead."""

AT_MOST = 10
"""How many times `debounce` a call is put off altogether, where `at_most` does not say."""

Duration = str | float | timedelta
"""`"30s"`, `"10m"`, `"1h"`, `"2d"`, a number of seconds, or a timedelta."""


class Pause(NamedTuple):
    """How long one call puts an execution off, and all calls together."""

    each: timedelta
    altogether: timedelta


@dataclass(frozen=True, kw_only=True)
class Unique:
    """One execution at a time of those that are alike in `keys`; names of arguments, or of fields of the
    payload. Without any: alike in all of them.

    While one is in `states`, more of its kind are not enqueued: `waiting`, `waiting_or_running` or `all`;
    but no longer than `within` after it was enqueued. `on_conflict` says what a further one does instead:
    `skip` nothing, `replace` gives the one that waits its payload, priority and time. With `debounce` each
    further one does that too, and puts it off until none has come for so long, `at_most` so long after the
    first. The latter two leave alone what has begun; `states` is `waiting` then, unless stated.

    Durations are as `"30s"`, `"10m"`, `"1h"` or `"2d"`, or numbers of seconds. Raises `ConfigurationError`
    for what makes no sense.
    """

    keys: Sequence[str] = ()
    states: str = ""
    within: Duration | None = None
    on_conflict: str = ""
    debounce: Duration | None = None
    at_most: Duration | None = None

    def __post_init__(self) -> None:
        if isinstance(self.keys, str):
            raise ConfigurationError(f"Unique: keys={self.keys!r} is a text; write a list: [{self.keys!r}]")
        self._set(keys=tuple(self.keys))
        if wrong := [key for key in self.keys if not isinstance(key, str) or not key]:
            raise ConfigurationError(f"Unique: keys has {excerpt(wrong[0])}, which is no argument's name")
        self._set(on_conflict=self.on_conflict or (SKIP if self.debounce is None else DEBOUNCE))
        self._set(states=self.states or ("waiting_or_running" if self.on_conflict == SKIP else "waiting"))
        self._check_words()
        for name in ("within", "debounce", "at_most"):
            self._set(**{name: _duration(name, getattr(self, name))})
        self._check_debounce()
        if self.states == "all" and self.on_conflict != SKIP:
            raise ConfigurationError(
                f"Unique: on_conflict={self.on_conflict!r} cannot change what has ended: "
                "states is 'waiting' or 'waiting_or_running'"
            )

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_words(self) -> None:
        for name, given, known in (
            ("states", self.states, tuple(STATES)), ("on_conflict", self.on_conflict, ON_CONFLICT),
        ):  # fmt: skip
            if given not in known:
                raise ConfigurationError(f"Unique: {name}={excerpt(given)} is not one of {', '.join(known)}")

    def _check_debounce(self) -> None:
        if self.on_conflict != DEBOUNCE:
            if stated := [name for name in (DEBOUNCE, "at_most") if getattr(self, name) is not None]:
                raise ConfigurationError(f"Unique: {stated[0]} goes with on_conflict='debounce' only")
            return
        if not isinstance(self.debounce, timedelta):
            raise ConfigurationError("Unique: on_conflict='debounce' needs how long: debounce='30s'")
        if self.within is not None:
            raise ConfigurationError("Unique: debounce ends by at_most, not by within")
        if self.at_most is None:
            self._set(at_most=min(AT_MOST * self.debounce, LONGEST))
        if self.at_most < self.debounce:  # type: ignore[operator]  # durations by now
            raise ConfigurationError("Unique: at_most is shorter than debounce")

    @property
    def window(self) -> timedelta | None:
        """How long after it was enqueued an execution counts at most."""
        return self.within if isinstance(self.within, timedelta) else None

    @property
    def pause(self) -> Pause | None:
        """How long each call puts the execution off, and all of them together; None: they do not."""
        if isinstance(self.debounce, timedelta) and isinstance(self.at_most, timedelta):
            return Pause(self.debounce, self.at_most)
        return None

    def of(self, values: Mapping[str, Any]) -> UniqueKey:
        """The unique key of these values, which are JSON. Raises `BadInput` for one that is missing."""
        if missing := [name for name in self.keys if name not in values]:
            raise BadInput(f"the payload has no {missing[0]!r}, which is part of its unique key")
        names = self.keys or sorted(values)
        text = ", ".join(f"{_name(name)}={_as_text(values[name])}" for name in names)
        return UniqueKey(_within_its_column(text or "no arguments"), self)


@dataclass(frozen=True)
class UniqueKey:
    """What is unique of one call: `host="mail.example", port=25`, or a text of the caller's."""

    text: str
    rule: Unique

    def of(self, values: Mapping[str, Any]) -> UniqueKey:
        """As it is, whatever the payload."""
        return self


def _name(name: str) -> str:
    """A name as it is, or in quotes: no name looks like several, with their values."""
    return name if name.isidentifier() else _as_text(name)


def _as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _within_its_column(text: str) -> str:
    """The text; of a long one its beginning and a digest of all of it."""
    if len(text) <= MOST_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[: MOST_CHARACTERS - len(digest) - 1]}…{digest}"


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_WRITTEN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smhd])")


def _duration(name: str, given: object) -> timedelta | None:
    if given is None:
        return None
    found = _WRITTEN.fullmatch(given) if isinstance(given, str) else None
    try:
        if found:
            length = timedelta(seconds=float(found[1]) * _UNITS[found[2]])
        elif isinstance(given, timedelta):
            length = given
        elif isinstance(given, int | float) and not isinstance(given, bool):
            length = timedelta(seconds=given)
        else:
            length = timedelta()
    except (OverflowError, ValueError):
        length = timedelta()
    if not timedelta() < length <= LONGEST:
        raise ConfigurationError(
            f"Unique: {name}={excerpt(given)} is no duration up to ten years: write '30s', '10m', '1h' "
            "or '2d'"
        )
    return length
