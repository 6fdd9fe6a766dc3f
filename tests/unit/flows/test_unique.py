"""What a `Unique` says, and the unique key of a payload."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.flows.unique import MOST_CHARACTERS, Unique

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
VALUES = st.fixed_dictionaries({"a": JSON, "b": JSON})


@given(VALUES, VALUES)
def test_two_payloads_have_the_same_unique_key_where_they_are_equal_and_nowhere_else(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    alike = Unique(keys=["a", "b"]).of(one).text == Unique(keys=["a", "b"]).of(other).text
    assert alike == (repr(_sorted(one)) == repr(_sorted(other)))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


NAMES = st.text(alphabet='ab=, "1', min_size=1, max_size=8)


@given(*2 * [st.dictionaries(NAMES, st.integers(0, 1) | st.just('1, b="'), max_size=3)])
def test_names_of_a_payload_are_not_taken_for_values_whatever_is_in_them(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert (Unique().of(one).text == Unique().of(other).text) == (one == other)


def test_a_name_that_looks_like_two_arguments_is_one() -> None:
    assert Unique().of({"a": 1, "b": 2}).text != Unique().of({"a=1, b": 2}).text
    assert Unique().of({}).text != Unique().of({"no arguments": 1}).text


@given(st.text(min_size=200, max_size=400), st.text(max_size=5))
def test_a_long_unique_key_fits_its_column_and_is_still_another_for_another_payload(
    text: str, end: str
) -> None:
    one, other = (Unique().of({"a": given}).text for given in (text, text + end))
    assert len(one) <= MOST_CHARACTERS
    assert (one == other) == (not end)


def test_a_unique_key_can_be_read() -> None:
    payload = {"host": "mail.example", "port": 25, "subject": "hello"}
    assert Unique(keys=["host", "port"]).of(payload).text == 'host="mail.example", port=25'
    assert Unique().of({"b": None, "a": [1]}).text == "a=[1], b=null", "without keys it is all of the payload"
    assert Unique().of({}).text == "no arguments"


def test_a_payload_without_a_field_of_its_unique_key_is_refused() -> None:
    with pytest.raises(BadInput, match="no 'port', which is part of its unique key"):
        Unique(keys=["host", "port"]).of({"host": "a"})


@pytest.mark.parametrize(
    ("given", "length"),
    [
        ("30s", 30),
        ("1.5m", 90),
        ("1h", 3600),
        ("2d", 172_800),
        (90, 90),
        (0.5, 0.5),
        (timedelta(hours=1), 3600),
    ],
)
def test_a_duration_may_be_written_in_several_ways(given: Any, length: float) -> None:
    assert Unique(within=given).window == timedelta(seconds=length)


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"keys": "host"}, r"write a list: \['host'\]"),
        ({"keys": [3]}, "3, which is no argument's name"),
        ({"states": "running"}, "'running' is not one of waiting, waiting_or_running, all"),
        ({"on_conflict": "wait"}, "'wait' is not one of skip, replace, debounce"),
        ({"within": "1 hour"}, "within='1 hour' is no duration"),
        ({"within": 0}, "within=0 is no duration"),
        ({"within": True}, "within=True is no duration"),
        ({"within": float("nan")}, "within=nan is no duration"),
        ({"within": "9999d"}, "within='9999d' is no duration"),
        ({"on_conflict": "debounce"}, "needs how long: debounce='30s'"),
        ({"on_conflict": "skip", "debounce": "30s"}, "debounce goes with on_conflict='debounce' only"),
        ({"at_most": "30s"}, "at_most goes with on_conflict='debounce' only"),
        ({"debounce": "30s", "at_most": "10s"}, "at_most is shorter than debounce"),
        ({"debounce": "30s", "within": "1h"}, "ends by at_most, not by within"),
        ({"debounce": "30s", "states": "all"}, "on_conflict='debounce' cannot change what has ended"),
        ({"on_conflict": "replace", "states": "all"}, "on_conflict='replace' cannot change what has ended"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_written(stated: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Unique(**stated)


def test_what_is_left_out_is_what_makes_sense() -> None:
    assert (Unique().states, Unique().on_conflict) == ("waiting_or_running", "skip")
    debounced = Unique(debounce="30s")
    assert (debounced.states, debounced.on_conflict) == ("waiting", "debounce")
    assert debounced.pause == (timedelta(seconds=30), timedelta(seconds=300)), "ten times, unless stated"
    assert Unique(on_conflict="replace").states == "waiting"
