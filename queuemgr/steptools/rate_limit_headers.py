"""What the headers of a response say is left of a service's limits. Pure; each header is read once.

Read are `x-ratelimit-remaining-tokens` and its kind (OpenAI, Azure, Groq, Mistral, Cerebras), those of
Anthropic (`anthropic-ratelimit-tokens-remaining`), `x-ratelimit-remaining` (GitHub, OpenRouter), the IETF's
`RateLimit` and its older `RateLimit-Remaining`, and what asks for a wait. What cannot be read is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from queuemgr.steptools.retry_after import http_date, wait_in

MOST_HEADERS = 200
LONGEST_VALUE = 400
"""Headers of a response that are looked at, and characters of a value; a longer one says nothing."""

MOST = 2**53 - 1
LONGEST_RESET = 32 * 86_400.0
"""Seconds. A reset further away is a broken header: months have fewer."""

UNKNOWN_RESET = 60.0
"""Seconds for which a number without a reset holds."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left of a meter: `remaining` of `limit` (None: not said), for so many seconds."""

    remaining: int
    resets_in: float
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ResponseLimits:
    """What a response says of a service's limits: what is left `by_meter`, and the wait in seconds that it
    asks for (None: none). Meters are `requests`, `tokens`, `input_tokens`, `output_tokens`."""

    by_meter: Mapping[str, Remaining] = field(default_factory=dict)
    retry_after: float | None = None


def response_limits(headers: Any, now: datetime | None = None) -> ResponseLimits:
    """Read the headers of a response: a mapping or pairs, as every HTTP client has them. Of several windows
    of a meter (a minute's, a day's) the one with least left counts. `now`: an aware time, for tests."""
    found = dict(_texts(headers))
    clock = http_date(found.get("date", "")) or now or datetime.now(UTC)
    said: dict[_Window, dict[str, str]] = {}
    for name, text in found.items():
        if place := _place(name):
            said.setdefault(place.window, {}).setdefault(place.part, text)
    resets = {window: _seconds_until(parts.get("reset", ""), clock) for window, parts in said.items()}
    limits = [(window.meter, _remaining(window, parts, resets)) for window, parts in said.items()]
    return ResponseLimits(
        _least([*limits, *_structured(found.get("ratelimit", ""), found.get("ratelimit-policy", ""))]),
        wait_in(found, clock),
    )


def _texts(headers: Any) -> Iterator[tuple[str, str]]:
    """Names in lower case and values, as far as they are short texts. Of a header that is there several times
    the last, and where the client has joined them, none that is a number."""
    pairs: Iterable[Any] = headers.items() if hasattr(headers, "items") else headers
    for at, pair in enumerate(pairs):
        if at >= MOST_HEADERS:
            return
        name, value = (each.decode("latin-1") if isinstance(each, bytes) else each for each in pair)
        if isinstance(name, str) and isinstance(value, str) and max(len(name), len(value)) <= LONGEST_VALUE:
            yield name.lower(), value.strip()


class _Window(NamedTuple):
    """Of several limits of one meter one, by what its headers have in their names beside: `tokens`, `day`."""

    meter: str
    period: str


class _Place(NamedTuple):
    part: str
    window: _Window


_PREFIX = re.compile(r"(?:anthropic-|x-)?rate-?limit(bysize)?-")
_PARTS = frozenset({"limit", "remaining", "reset"})
_PERIODS = {"": None, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0, "month": LONGEST_RESET}
_METERS = {
    "": "requests", "requests": "requests", "request": "requests", "req": "requests",
    "tokens": "tokens", "project-tokens": "tokens",
    "input-tokens": "input_tokens", "output-tokens": "output_tokens",
}  # fmt: skip


def _place(name: str) -> _Place | None:
    """Where the header belongs; None if it is none of them."""
    prefix = _PREFIX.match(name)
    if prefix is None:
        return None
    words = [word for word in name[prefix.end() :].split("-") if word != "after"]  # `reset-after`, in seconds
    parts = [word for word in words if word in _PARTS]
    periods = [word for word in words if word in _PERIODS]
    meter = _METERS.get("-".join(word for word in words if word not in _PARTS and word not in _PERIODS))
    if len(parts) != 1 or len(periods) > 1 or meter is None:
        return None
    return _Place(parts[0], _Window("tokens" if prefix[1] else meter, "".join(periods)))


def _remaining(
    window: _Window, parts: Mapping[str, str], resets: Mapping[_Window, float | None]
) -> Remaining | None:
    remaining = _number(parts.get("remaining", ""))
    if remaining is None:
        return None
    candidates = (resets[window], resets.get(_Window(window.meter, "")), _PERIODS[window.period])
    reset = next((seconds for seconds in candidates if seconds is not None), UNKNOWN_RESET)
    return Remaining(remaining, reset, _number(parts.get("limit", "")))


_NUMBER = re.compile(r"(\d{1,16})(?:\.\d{1,9})?", re.ASCII)
_DECIMAL = re.compile(r"\d{1,16}(?:\.\d{1,9})?", re.ASCII)
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|us|[dhms])){1,6}", re.ASCII)
_UNIT = re.compile(r"(\d+(?:\.\d+)?)(ms|us|[dhms])", re.ASCII)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def _number(text: str) -> int | None:
    """A whole number, rounded down; none for a negative one, which a few services send for no limit."""
    number = _NUMBER.fullmatch(text)
    return min(int(number[1]), MOST) if number else None


EPOCH = 1e9
"""A larger number of seconds is a time since 1970, and a thousand times that one in milliseconds."""


def _seconds_until(text: str, now: datetime) -> float | None:
    """Seconds until a reset: of `6m0s`, `120ms`, `58.2` (seconds), a time since 1970, an RFC 3339 or an HTTP
    date; 0 for one that is over. None for what cannot be read, and what is too far away."""
    if _DURATION.fullmatch(text):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _UNIT.findall(text))
    elif _DECIMAL.fullmatch(text):
        number = float(text)
        since_1970 = number / 1000 if number >= 1000 * EPOCH else number
        seconds = since_1970 - now.timestamp() if number >= EPOCH else number
    elif when := _date(text):
        seconds = (when - now).total_seconds()
    else:
        return None
    return max(0.0, seconds) if seconds <= LONGEST_RESET else None


def _date(text: str) -> datetime | None:
    try:
        when = datetime.fromisoformat(text)
        return when if when.tzinfo else when.replace(tzinfo=UTC)
    except ValueError:
        return http_date(text)


_UNITS = {"": "requests", "requests": "requests", "tokens": "tokens", "content-bytes": "bytes"}
_MEMBER = re.compile(r'"([^"\\]{0,60})"((?:;[a-z]{1,8}=[^;,"]{1,40}|;[a-z]{1,8}="[^"\\]{0,40}")*)')
_PARAMETER = re.compile(r';([a-z]{1,8})="?([^;,"]{1,40})')


def _structured(remaining: str, policies: str) -> Iterator[tuple[str, Remaining | None]]:
    """Those of `RateLimit: "default";r=50;t=30`, whose unit and amount are `RateLimit-Policy`'s."""
    policy = dict(_members(policies))
    for name, parameters in _members(remaining):
        of_it = policy.get(name, {})
        meter = _UNITS.get(parameters.get("qu") or of_it.get("qu", ""))
        left, window = _number(parameters.get("r", "")), parameters.get("t") or of_it.get("w", "")
        seconds = float(window) if _DECIMAL.fullmatch(window) else UNKNOWN_RESET
        if meter and left is not None and seconds <= LONGEST_RESET:
            yield meter, Remaining(left, seconds, _number(of_it.get("q", "")))


def _members(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The members of a list of RFC 9651 that has strings with parameters, white space left out."""
    for member in "".join(text.split()).split(","):
        if found := _MEMBER.fullmatch(member):
            yield found[1], dict(_PARAMETER.findall(found[2]))


def _least(limits: Iterable[tuple[str, Remaining | None]]) -> dict[str, Remaining]:
    """Of each meter that of which least is left, if it is not over; of two alike the later."""
    least: dict[str, Remaining] = {}
    for meter, limit in limits:
        if limit is None or limit.resets_in <= 0:
            continue
        known = least.get(meter)
        if known is None or (limit.remaining, -limit.resets_in) < (known.remaining, -known.resets_in):
            least[meter] = limit
    return least
