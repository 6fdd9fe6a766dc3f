"""What models cost: a table of prices that an operator states, and exact sums of money. Pure.

Prices are dollars per million tokens, so tokens times their price are millionths of a dollar: the smallest
part of the meter `usd`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from decimal import Decimal, InvalidOperation
from typing import Any

from pipeline.steps.llm.usage import Usage
from queuemgr import Meter

EXAMPLE = '{"m-1": {"input": 0.15, "cached_input": 0.075, "output": 0.6, "image": 0}}'

HIGHEST = 100_000
"""Dollars of any price: more is a mistake."""

MICRO = 1_000_000
"""Millionths of a dollar in one."""

DOLLARS = Meter("usd", scale=MICRO)
"""How the queue writes dollars."""


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """Dollars per million tokens sent, sent again and found in the endpoint's cache, and answered; `image` is
    dollars for each picture, where those are billed apart from tokens."""

    input: Decimal
    output: Decimal
    cached_input: Decimal
    image: Decimal = Decimal(0)

    def micro_usd(self, usage: Usage) -> int:
        """What this usage costs, in millionths of a dollar, rounded up once."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        exact = (
            (usage.prompt_tokens - cached) * self.input
            + cached * self.cached_input
            + usage.completion_tokens * self.output
            + usage.images * self.image * MICRO
        )
        return int(exact.to_integral_value("ROUND_CEILING"))


NAMES = tuple(field.name for field in fields(ModelPrice))


def prices_in(given: Any) -> dict[str, ModelPrice]:
    """The prices by model of a setting, as JSON or already read. Raises `ValueError` for one that cannot be
    understood, naming the model and the price."""
    table = _read(given) if isinstance(given, str) else given
    if not isinstance(table, Mapping):
        raise ValueError(f"it names no models: write {EXAMPLE}")
    return {str(model): _price(str(model), stated) for model, stated in table.items()}


def _read(text: str) -> Any:
    try:
        return json.loads(text, parse_int=Decimal, parse_float=Decimal, object_pairs_hook=_each_once)
    except RecursionError:
        raise ValueError("it is no JSON (nested too deeply)") from None
    except InvalidOperation:
        raise ValueError("it is no JSON (the exponent of a number is out of range)") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON ({error})") from None


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r:.60} stands there twice")
        found[name] = value
    return found


def _price(model: str, stated: Any) -> ModelPrice:
    if isinstance(stated, ModelPrice):
        return stated
    if not isinstance(stated, Mapping):
        raise ValueError(f"model {model!r:.60} has no prices: write {EXAMPLE}")
    if unknown := [name for name in stated if name not in NAMES]:
        known = ", ".join(NAMES)
        raise ValueError(
            f"model {model!r:.60} has no price called {str(unknown[0])!r:.60}; there are {known}"
        )
    if missing := [name for name in ("input", "output") if name not in stated]:
        raise ValueError(f"model {model!r:.60} has no price for its {missing[0]}")
    dollars = {name: _dollars(model, name, number) for name, number in stated.items()}
    return ModelPrice(**{"cached_input": dollars["input"], **dollars})


def _dollars(model: str, name: str, number: Any) -> Decimal:
    text, price = "a number of thousands of digits", Decimal("NaN")
    with suppress(InvalidOperation, ValueError):  # Python does not write an integer that long
        text = f"{number!s:.30}" if isinstance(number, Decimal) else f"{number!r:.60}"
        if not isinstance(number, bool) and len(str(number)) <= 30:
            price = Decimal(str(number))
    if not (price.is_finite() and 0 <= price <= HIGHEST):
        raise ValueError(
            f"model {model!r:.60}: {name} {text} is no price: dollars per "
            f"{'image' if name == 'image' else 'million tokens'}, 0 to {HIGHEST:,}"
        )
    return price
