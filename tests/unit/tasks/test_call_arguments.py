"""A call is stored as JSON by the function's parameters, and read back as it was made, or refused."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.tasks.call_arguments import CallArguments

UTC_TIMES = st.datetimes(timezones=st.just(dt.UTC))
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)))
)  # fmt: skip
RICH = LEAVES | st.uuids() | st.dates() | UTC_TIMES | st.decimals(allow_nan=False, allow_infinity=False)
NAMES = st.text("abcdefgh", min_size=1)
UNTYPED = st.recursive(
    RICH, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


@dataclass(frozen=True)
class Order:
    number: int
    lines: list[str]


def stored(arguments: CallArguments, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """The payload, as the database gives it back."""
    payload: dict[str, Any] = json.loads(json.dumps(arguments.payload(args, kwargs), allow_nan=False))
    return payload


def untyped(first, *rest, named=None, **others):  # type: ignore[no-untyped-def]
    """As many a Celery task is written."""


@given(UNTYPED, st.lists(UNTYPED, max_size=2), UNTYPED, st.dictionaries(NAMES, UNTYPED, max_size=2))
def test_a_call_without_annotations_comes_back_as_it_was(
    first: Any, rest: list[Any], named: Any, others: dict[str, Any]
) -> None:
    arguments = CallArguments("shop.untyped", untyped)
    others = {name: value for name, value in others.items() if name not in ("first", "named", "rest")}
    args, kwargs = arguments.call(stored(arguments, first, *rest, named=named, **others))
    assert (args, kwargs) == ([first, *rest], {"named": named, **others})


def typed(
    when: dt.datetime,
    order: Order,
    tags: frozenset[str] = frozenset(),
    *,
    price: decimal.Decimal | None = None,
    ids: Mapping[str, uuid.UUID] | None = None,
) -> Order: ...  # type: ignore[empty-body]


@given(
    UTC_TIMES, st.builds(Order, st.integers(-(2**53), 2**53), st.lists(st.text("ab"))),
    st.frozensets(st.text("ab")), st.decimals(allow_nan=False, allow_infinity=False),
    st.dictionaries(NAMES, st.uuids(), max_size=2),
)  # fmt: skip
def test_a_call_comes_back_as_its_annotations_say(
    when: dt.datetime, order: Order, tags: frozenset[str], price: decimal.Decimal, ids: dict[str, uuid.UUID]
) -> None:
    arguments = CallArguments("shop.typed", typed)
    args, kwargs = arguments.call(stored(arguments, when, order, tags, price=price, ids=ids))
    assert (args, kwargs) == ([when, order, tags], {"price": price, "ids": ids})


@given(st.builds(Order, st.integers(-(2**53), 2**53), st.lists(st.text("ab"))))
def test_a_result_comes_back_as_its_annotation_says(order: Order) -> None:
    arguments = CallArguments("shop.typed", typed)
    assert arguments.read_result(json.loads(json.dumps(arguments.store_result(order)))) == order


@given(UNTYPED)
def test_a_result_without_annotation_comes_back_as_it_was(value: Any) -> None:
    arguments = CallArguments("shop.untyped", untyped)
    assert arguments.read_result(json.loads(json.dumps(arguments.store_result(value)))) == value


def odd(self: int, model_config: int, copy: int, json: int = 1, schema: int = 2, class_: int = 3) -> None: ...


def test_parameters_may_have_names_that_models_use() -> None:
    arguments = CallArguments("shop.odd", odd)
    assert arguments.call(stored(arguments, 1, 2, copy=3, schema=4)) == ([1, 2, 3], {"schema": 4})


def test_a_default_is_not_stored_so_that_a_later_release_may_change_it() -> None:
    arguments = CallArguments("shop.odd", odd)
    assert stored(arguments, 1, 2, 3) == {"self": 1, "model_config": 2, "copy": 3}
    assert arguments.with_defaults({"copy": 4}) == {"copy": 4, "json": 1, "schema": 2, "class_": 3}


REFUSED: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]] = [
    (typed, (), {}, "missing a required argument: 'when'"),
    (typed, ("yesterday", {}), {}, "when: Input should be a valid datetime"),
    (typed, (dt.datetime.now(dt.UTC), {"number": "x"}), {}, "order.number"),
    (typed, (dt.datetime.now(dt.UTC), Order(1, []), 0), {}, "tags"),
    (untyped, (object(),), {}, "cannot be stored as JSON"),
    (untyped, (1,), {"named": {1, 2}.__iter__()}, "cannot be stored as JSON"),
    (odd, (1, 2, 3), {"nonsense": 1}, "unexpected keyword argument 'nonsense'"),
]


@pytest.mark.parametrize(("function", "args", "kwargs", "said"), REFUSED)
def test_a_call_that_cannot_be_made_or_stored_is_refused_by_the_argument(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    arguments = CallArguments("shop.task", function)
    with pytest.raises(BadInput, match=r"^shop\.task") as refused:
        arguments.payload(args, kwargs)
    assert said in str(refused.value)


def test_a_refusal_does_not_show_the_value() -> None:
    with pytest.raises(BadInput) as refused:
        CallArguments("shop.typed", typed).payload(("a secret",), {"order": "another"})
    assert "secret" not in str(refused.value)


class NotJson:
    """Of no use in a payload."""


def with_an_object(user: NotJson) -> None: ...


def of_a_later_type(order: Later) -> Later: ...  # type: ignore[empty-body]


def test_a_parameter_that_cannot_be_stored_is_refused_when_the_function_is_declared() -> None:
    with pytest.raises(ConfigurationError, match="'user' is a NotJson, which cannot be stored as JSON"):
        CallArguments("shop.task", with_an_object).check()


@dataclass
class Later:
    number: int


def test_an_annotation_may_name_what_is_defined_further_below() -> None:
    arguments = CallArguments("shop.task", of_a_later_type)
    assert arguments.call(stored(arguments, Later(3))) == ([Later(3)], {})


@given(st.recursive(LEAVES, lambda i: st.lists(i, max_size=2) | st.dictionaries(
    st.sampled_from(["__type__", "__value__", "first", "when", "field_0"]), i, max_size=3)))  # fmt: skip
def test_a_payload_of_another_shape_is_refused_with_a_sentence(value: Any) -> None:
    """From another release, or from outside."""
    for function in (untyped, typed, odd):
        payload = value if isinstance(value, dict) else {"first": value}
        try:
            CallArguments("shop.task", function).call(payload)
        except BadInput as error:
            assert str(error).startswith("shop.task does not take this payload")
