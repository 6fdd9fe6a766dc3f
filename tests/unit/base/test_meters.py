"""Amounts of meters: exact in storage, decimal for people, estimates on a coarse grid."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base import meters
from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.base.meters import MAX_AMOUNT, Meter, on_grid

USD = meters.meter_named("usd")


@pytest.mark.parametrize(
    ("number", "amount", "shown"),
    [
        (0, 0, "0.00"), ("0.000001", 1, "0.000001"), (0.0000001, 1, "0.000001"),
        ("1,250.5", 1_250_500_000, "1,250.50"), (Decimal("20"), 20_000_000, "20.00"), (0.1, 100_000, "0.10"),
        (12.345678, 12_345_678, "12.345678"),
    ],
)  # fmt: skip
def test_dollars_are_stored_in_millionths_rounded_up_and_shown_as_dollars(
    number: Any, amount: int, shown: str
) -> None:
    assert USD.amount(number) == amount
    assert USD.text(amount) == shown


@pytest.mark.parametrize(
    "number", [-1, "x", "", "nan", "inf", "1e400", True, None, "9" * 40, float("nan"), "1 2"]
)
def test_what_is_no_amount_is_refused_with_a_sentence(number: Any) -> None:
    with pytest.raises(BadInput, match=r"is no number of usd|is out of range"):
        USD.amount(number)


@given(st.dictionaries(st.sampled_from(sorted(meters.meters())), st.integers(1, MAX_AMOUNT), max_size=4))
def test_amounts_come_back_from_rows_as_they_were(amounts: dict[str, int]) -> None:
    assert dict(meters.from_text(meters.as_text(amounts))) == amounts


@given(st.integers(0, MAX_AMOUNT))
def test_an_estimate_is_never_lowered_and_raised_by_a_tenth_at_most(amount: int) -> None:
    rounded = on_grid(amount)
    assert amount <= rounded <= amount + amount // 10 + 3
    assert on_grid(rounded) == rounded


@pytest.mark.parametrize("amount", [0, 1, 9, 10, 19, 48, 95, 120, 1200, 4800, 10_000, 1_250_000 - 50_000])
def test_an_estimate_of_two_digits_stays_what_it_is(amount: int) -> None:
    assert on_grid(amount) == amount


def test_a_million_estimates_share_few_values() -> None:
    assert len({on_grid(amount) for amount in range(1_000_000)}) < 250


def test_an_unknown_meter_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(
        BadInput, match="no meter is called 'token'; there are: bytes, requests, starts, tokens, usd"
    ):
        meters.stored({"token": 1})


def test_an_application_has_meters_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meters, "_meters", dict(meters._meters))
    hours = meters.register_meter(Meter("gpu_hours", scale=3600))
    assert meters.register_meter(Meter("gpu_hours", scale=3600)) == hours
    assert meters.stored({"gpu_hours": 0.5}) == {"gpu_hours": 1800}
    with pytest.raises(ConfigurationError, match="there is another meter 'gpu_hours'"):
        meters.register_meter(Meter("gpu_hours", scale=60))


@pytest.mark.parametrize(
    "values", [("",), ("Tokens",), ("a b",), ("x" * 33,), ("a", 0), ("a", True), ("a", 10**10), (5,)]
)
def test_a_meter_that_cannot_be_is_refused(values: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError, match="meter"):
        Meter(*values)
