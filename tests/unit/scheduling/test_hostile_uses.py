"""Whatever an application says that a step uses: rows store an amount of a known meter, or it is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from queuemgr.base import meters
from queuemgr.base.errors import BadInput, RuleFailed, SluiceError
from queuemgr.flows.flow import Phase, Step, StepRef
from queuemgr.scheduling import step_rules
from queuemgr.worker.step_usage import StepUsage


class Equal(str):
    """A name that says it is that of a meter, and is written otherwise."""

    def __hash__(self) -> int:
        return hash("tokens")

    def __eq__(self, other: object) -> bool:
        return True

    def __format__(self, _: str) -> str:
        return "requests=5 \n\x1b[31m"


class Exits:
    """Of which nothing can be asked."""

    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class Items(Mapping[Any, Any]):
    """A mapping whose items are what it was made of."""

    def __init__(self, made_of: Any) -> None:
        self.made_of = made_of

    def __getitem__(self, name: Any) -> Any:
        raise KeyError(name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.made_of)

    def __len__(self) -> int:
        return 1

    def items(self) -> Any:
        return self.made_of()


NAMES: tuple[Any, ...] = (
    "tokens", "usd", "requests", "coins", "", "tokens ", "tokens\n", "tokens=5 usd", "a" * 1000, Equal("x"),
    b"usd", 5, None, float("nan"), ("tokens",), frozenset(), Exits(),
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    0, 1, -1, True, None, -0.0, 1e-300, 1e300, float("nan"), float("inf"), -float("inf"), 2**53 - 1, 2**53,
    2**63, 10**5000, -(10**5000), "", "1e5", "1e999999", "1e-999999", "1e99999999999999999999", "9" * 59,
    "9" * 5000, "sNaN", "NaN123", "٣", "1_0", "\x00", b"1", [1], {}, Decimal("1e999999"),
    Decimal("sNaN"), Fraction(1, 3), 1j, object(), Exits(),
)  # fmt: skip
NO_AMOUNTS: tuple[Any, ...] = (
    None, 5, "tokens=5", [("tokens", 5)], {"tokens"}, Items(5), Items(lambda: 5), Items(lambda: [5]),
    Items(lambda: [("tokens", 1, 2)]), Items(lambda: 1 / 0), Items(lambda: exec("raise SystemExit")),
    {f"m{n}": 1 for n in range(99)},
)  # fmt: skip
SAID = [*({name: number} for name, number in product(NAMES, NUMBERS)), *NO_AMOUNTS]


def told(value: Any) -> StepRef:
    """A step whose rule returns this."""
    step = Step("say", "t.say", uses=lambda _: value)
    return StepRef(Phase("prep", 0, "waiting", "running", (step,)), step, "said")


@pytest.mark.parametrize("usual", [0, 812])
def test_whatever_a_rule_says_is_stored_as_amounts_of_meters_or_refused(
    usual: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_rules.estimates, "usual", lambda ref, meter: usual)
    kept = 0
    for value in SAID:
        try:
            text = step_rules.needs_of(told(value), {}).uses
        except RuleFailed:
            continue
        amounts = meters.from_text(text)
        assert set(amounts) <= {"tokens", "usd"}
        assert all(0 < amount <= 1.1 * meters.MAX_AMOUNT for amount in amounts.values())
        assert meters.as_text(amounts) == text and text.isprintable()
        kept += bool(text)
    assert kept > 10, "some of it is right"


def test_whatever_a_step_says_that_it_used_is_kept_as_amounts_of_meters_or_refused() -> None:
    kept = 0
    for name, number in product(NAMES[:-1], NUMBERS[:-1]):
        try:
            spent = meters.stored({name: number})
        except BadInput as error:
            assert str(error).isprintable() or repr(number) in str(error)
            continue
        except TypeError as error:
            assert "unhashable" in str(error)
            continue
        usage = StepUsage()
        for _ in range(3):
            with usage.adding(spent) as total:
                assert all(0 <= amount <= meters.MAX_AMOUNT for amount in total.values())
                text = meters.as_text(total, zeros=True)
        assert meters.amounts_read(text) == dict(total), "reports can read it"
        kept += 1
    assert kept > 10


def test_what_a_hostile_amount_is_refused_with_is_an_error_of_ours() -> None:
    for number in NUMBERS[:-1]:
        try:
            meters.meter_named("usd").amount(number)
        except SluiceError as error:
            assert len(str(error)) < 200
