"""Meters: the units that providers limit and bill, and amounts of them. Pure.

An amount is a whole number of a meter's smallest part: requests, tokens, bytes, millionths of a dollar.
People write and read decimal numbers (`0.25 usd`). Rows store amounts by meter as text, as
`tokens=2048 usd=1250`; requests have a column of their own, `cost`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.base.safe_text import excerpt

MAX_AMOUNT = 2**53 - 1
"""The largest amount of anything: exact in every format that carries it, JSON and floating point included."""

MAX_USES = 200
"""Characters that columns hold of the amounts of a step."""

LONGEST_NUMBER = 60
"""Characters of an amount as people write it."""

NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")

Amounts = Mapping[str, int]
"""Amounts by the name of their meter."""


@dataclass(frozen=True, slots=True)
class Meter:
    """A unit of usage. `scale` is how many of its smallest parts make one; `initial` the estimate, in its
    unit, for a step of which nothing is known yet. Of a `strict` meter a step may use no more than was
    reserved for it.

    Raises `ConfigurationError` for a name that is no lower-case identifier, and a scale below 1.
    """

    name: str
    scale: int = 1
    initial: int = 1
    strict: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"meter {excerpt(self.name)}: a name has lower-case letters, digits and _, at most 32"
            )
        if isinstance(self.scale, bool) or not isinstance(self.scale, int) or not 1 <= self.scale <= 10**9:
            raise ConfigurationError(f"meter {self.name}: the scale {excerpt(self.scale)} is not 1 to 10**9")

    def text(self, amount: int) -> str:
        """`1,250` or `0.25`: an amount in the meter's unit; parts of one with two places or more."""
        if self.scale == 1:
            return f"{amount:,}"
        whole, _, part = f"{Decimal(amount) / self.scale:,.9f}".partition(".")
        return f"{whole}.{part.rstrip('0').ljust(2, '0')}"

    def amount(self, number: int | float | str | Decimal) -> int:
        """The amount that a number of its unit is, rounded up. Raises `BadInput`."""
        try:
            text = str(number)
            if isinstance(number, bool):
                raise InvalidOperation
            exact = self._parts(text)
            whole = exact.to_integral_value("ROUND_CEILING")
        except (ArithmeticError, ValueError):  # also of an exponent, and of an integer, with too many digits
            raise BadInput(f"{excerpt(number)} is no number of {self.name}") from None
        if not (exact.is_finite() and 0 <= whole <= MAX_AMOUNT):
            raise BadInput(f"{text} is out of range: {self.name} are 0 to {self.text(MAX_AMOUNT)}")
        return int(whole)

    def is_rounded(self, number: str) -> bool:
        """Whether `amount` rounds this number, which it reads, up to its smallest part."""
        parts = self._parts(number)
        return parts != parts.to_integral_value()

    def _parts(self, text: str) -> Decimal:
        if len(text) > LONGEST_NUMBER:
            raise InvalidOperation
        return Decimal(text.replace(",", "")) * self.scale


REQUESTS, TOKENS, USD, BYTES, STARTS = "requests", "tokens", "usd", "bytes", "starts"

_OURS = (
    Meter(REQUESTS, strict=True),
    Meter(TOKENS, initial=1000),
    Meter(USD, scale=1_000_000),
    Meter(BYTES, initial=1_000_000),
    Meter(STARTS, strict=True),
)
_meters: dict[str, Meter] = {meter.name: meter for meter in _OURS}


def register_meter(meter: Meter) -> Meter:
    """Make a unit of the application known, where its flows are declared. Once more changes nothing; raises
    `ConfigurationError` for another meter of a known name."""
    if _meters.setdefault(meter.name, meter) != meter:
        raise ConfigurationError(f"there is another meter {meter.name!r}: {_meters[meter.name]}")
    return meter


def meter_named(name: str) -> Meter:
    """Raises `BadInput`, with the names there are."""
    try:
        return _meters[name]
    except (KeyError, TypeError):
        known = ", ".join(sorted(_meters))
        raise BadInput(f"no meter is called {excerpt(name)}; there are: {known}") from None


def meter_or_plain(name: str) -> Meter:
    """The meter of this name; one that only a newer release knows is shown in whole numbers, as is what a row
    has in place of a name."""
    return _meters.get(name) or Meter(name if NAME.fullmatch(name) else "unknown")


def meters() -> Mapping[str, Meter]:
    return MappingProxyType(_meters)


def stored(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Amounts as rows store them, of numbers in the meters' units. Raises `BadInput`."""
    return {(meter := meter_named(name)).name: meter.amount(number) for name, number in amounts.items()}


def as_text(amounts: Amounts, *, zeros: bool = False) -> str:
    """`tokens=2048 usd=1250`, in the order of the names. Raises `ConfigurationError`."""
    text = " ".join(f"{name}={amount}" for name, amount in sorted(amounts.items()) if amount or zeros)
    if len(text) > MAX_USES:
        raise ConfigurationError(f"the uses {text[:60]!r}… have {len(text)} characters; {MAX_USES} fit")
    return text


@lru_cache(maxsize=20_000)
def from_text(text: str) -> Amounts:
    """The amounts that `as_text` wrote."""
    pairs = (part.partition("=") for part in text.split())
    return MappingProxyType({name: int(amount) for name, _, amount in pairs})


_TEXT = re.compile(r"[a-z][a-z0-9_]*=[0-9]{1,18}(?: [a-z][a-z0-9_]*=[0-9]{1,18})*")


def amounts_read(text: str | None) -> Amounts:
    """The amounts of a stored text; none of one that a hand wrote and that cannot be read, as in reports."""
    return from_text(text) if text and _TEXT.fullmatch(text) else {}


@lru_cache(maxsize=20_000)
def amounts_of(cost: int, uses: str) -> Amounts:
    """The amounts of a row: its requests, and the others."""
    return MappingProxyType({**({REQUESTS: cost} if cost else {}), **from_text(uses)})


def largest(some: Amounts, others: Amounts) -> Amounts:
    """Of each meter the larger amount."""
    return {name: max(some.get(name, 0), others.get(name, 0)) for name in {**some, **others}}


def on_grid(amount: int) -> int:
    """The amount, rounded up to two digits, the second of which is even from 20 on and 0 or 5 from 50 on: at
    most a tenth more.

    So that estimates that differ from item to item share 35 values for each power of ten, and their work few
    routes.
    """
    power = int(10 ** max(0, len(str(amount)) - 2))
    step = power * (1 if amount < 20 * power else 2 if amount < 50 * power else 5)
    return -(-amount // step) * step
