"""The table of prices: what is understood of it, what is said of what is not, and exact sums."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from pipeline.config import PipelineSettings
from pipeline.model_prices import EXAMPLE, ModelPrice, prices_in
from pipeline.steps.llm.usage import Usage
from queuemgr import ConfigurationError

TENTHS = ModelPrice(Decimal("0.1"), Decimal("0.3"), Decimal("0.01"), Decimal("0.000001"))


def test_the_example_is_understood_to_the_digit() -> None:
    price = ModelPrice(Decimal("0.15"), Decimal("0.6"), Decimal("0.075"), Decimal(0))
    assert prices_in(EXAMPLE) == {"m-1": price}


@pytest.mark.parametrize("number", ["0.1", 0.1, Decimal("0.1")])
def test_a_price_in_django_settings_is_what_it_looks_like(number: Any) -> None:
    settings = PipelineSettings.load({"SLUICE_MODEL_PRICES": {"m": {"input": number, "output": 1}}})
    assert settings.model_prices["m"].input == Decimal("0.1")


def test_a_cached_token_costs_as_any_other_unless_its_price_is_stated() -> None:
    (price,) = prices_in('{"m": {"input": 3, "output": 15}}').values()
    assert (price.cached_input, price.image) == (3, 0)


@pytest.mark.parametrize(
    ("usage", "micro_usd"),
    [
        (Usage(), 0),
        (Usage(prompt_tokens=10, completion_tokens=10), 4),
        (Usage(prompt_tokens=1), 1),  # a tenth of a millionth, rounded up
        (Usage(prompt_tokens=1000, cached_tokens=900), 19),
        (Usage(prompt_tokens=10, images=7), 8),
        (Usage(prompt_tokens=10**12, completion_tokens=10**12), 4 * 10**11),
    ],
)
def test_what_a_usage_costs_is_exact_and_rounded_up_once(usage: Usage, micro_usd: int) -> None:
    assert TENTHS.micro_usd(usage) == micro_usd


WRONG = {
    "{": "it is no JSON",
    "[" * 100_000: "it is no JSON",
    "[]": "it names no models",
    '{"m": 3}': "model 'm' has no prices",
    '{"m": {"inptu": 1, "output": 1}}': "no price called 'inptu'; there are input, output",
    '{"m": {"input": 1}}': "model 'm' has no price for its output",
    '{"m": {"input": -1, "output": 1}}': "input .* is no price: dollars per million tokens, 0 to 100,000",
    '{"m": {"input": NaN, "output": 1}}': "is no price",
    '{"m": {"input": 1e9, "output": 1}}': "is no price",
    '{"m": {"input": 1e-99999999999999999999, "output": 1}}': "the exponent of a number is out of range",
    '{"m": {"input": true, "output": 1}}': "is no price",
    '{"m": {"input": "cheap", "output": 1}}': "'cheap' is no price",
    '{"m": {"input": 1, "output": 1, "image": -1}}': "dollars per image",
    '{"m": {"input": 1, "output": 1}, "m": {"input": 2, "output": 1}}': "'m' stands there twice",
    json.dumps({"m": {"input": "1" * 1000, "output": 1}}): "is no price",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:30])
def test_a_table_that_cannot_be_understood_names_the_setting_and_what_is_wrong(text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"SLUICE_MODEL_PRICES.*{WRONG[text]}"):
        PipelineSettings.load({"SLUICE_MODEL_PRICES": text})
