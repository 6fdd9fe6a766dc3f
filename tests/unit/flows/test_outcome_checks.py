"""Whatever a step returns becomes an outcome that both databases can store, or a failure that says why."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base.safe_text import is_storable
from queuemgr.flows.outcome_checks import MAX_CONTEXT_BYTES, MAX_RESULT_BYTES, MAX_SECONDS, checked
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Lost, Skipped, Snoozed
from queuemgr.flows.retry_policy import Policy

ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.datetimes(),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.decimals(), st.sets(st.integers(), max_size=2), st.functions(like=lambda: None),
)  # fmt: skip

OUTCOMES = st.one_of(
    st.builds(
        Done,
        ANYTHING,
        ANYTHING,
        ANYTHING,
        st.one_of(ANYTHING, st.builds(Failed, ANYTHING, ANYTHING)),
        result=ANYTHING,
    ),
    st.builds(Skipped, ANYTHING),
    st.builds(Snoozed, ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING),
    st.builds(Failed, ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING, ANYTHING),
    st.builds(
        Failed,
        st.just("network"),
        st.text(),
        traceback=ANYTHING,
        policy=st.one_of(ANYTHING, st.builds(Policy, st.integers(), st.floats(), st.floats(), st.floats())),
    ),
    st.builds(Interrupted, ANYTHING),
    st.builds(Lost),
    ANYTHING,
)


def texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [*value, *(text for inner in value.values() for text in texts(inner))]
    if isinstance(value, list):
        return [text for inner in value for text in texts(inner)]
    return [value] if isinstance(value, str) else []


@given(OUTCOMES)
def test_whatever_is_returned_becomes_an_outcome_that_can_be_stored(returned: Any) -> None:
    result = checked(returned)
    assert isinstance(result, Done | Skipped | Snoozed | Failed | Interrupted)
    if isinstance(result, Done | Snoozed):
        assert json.loads(json.dumps(result.context, allow_nan=False)) == result.context
        assert all(map(is_storable, texts(result.context)))
    if isinstance(result, Done) and result.result is not None:
        assert json.loads(json.dumps(result.result, allow_nan=False)) == result.result
        assert all(map(is_storable, texts(result.result)))
    if isinstance(result, Failed) and result.policy:
        assert result.policy.max_attempts >= 1
        assert 0 <= result.policy.base < math.inf
    if isinstance(result, Done | Failed):
        assert result.cost is None or 0 <= result.cost < 2**31
    if isinstance(result, Snoozed):
        assert 0 <= result.seconds <= MAX_SECONDS
    if isinstance(result, Failed):
        assert 0 < len(result.kind) <= 32
        assert isinstance(result.message, str)
        assert result.retry_after is None or math.isfinite(result.retry_after)


NAMES = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))
LEAVES = st.none() | st.booleans() | st.integers() | st.text("abc")
NESTED = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=5)


@given(st.dictionaries(NAMES, NESTED, max_size=4))
def test_a_context_of_json_is_kept_as_it_is(context: dict[str, Any]) -> None:
    assert checked(Done(context)) == Done(context)


@given(NESTED)
def test_a_result_of_json_is_kept_as_it_is(result: Any) -> None:
    assert checked(Done(result=result)) == Done(result=result)


def test_a_result_too_large_is_not_tried_again() -> None:
    failed = checked(Done(result="x" * MAX_RESULT_BYTES))
    assert isinstance(failed, Failed)
    assert failed.kind == "too_large"
    assert f"result has {MAX_RESULT_BYTES + 2:,} bytes of JSON" in failed.message


@pytest.mark.parametrize("returned", [0, "", {}, [], False, Done, "done"])
def test_only_none_stands_for_done(returned: Any) -> None:
    assert checked(None) == Done()
    result = checked(returned)
    assert isinstance(result, Failed)
    assert result.kind == "unexpected"
    assert result.message.startswith("its result could not be stored: TypeError: a step returns an outcome")


def test_a_wait_without_an_end_is_no_wait() -> None:
    """The backoff of its kind of error applies instead."""
    assert checked(Failed("network", "reset", math.inf)) == Failed("network", "reset", None)
    assert checked(Failed("network", "reset", 1e300)) == Failed("network", "reset", MAX_SECONDS)


def test_a_subclass_of_an_outcome_is_taken_for_that_outcome() -> None:
    class MyDone(Done):
        pass

    assert checked(MyDone({"a": 1})) == Done({"a": 1})


def test_a_context_too_large_names_its_size() -> None:
    result = checked(Done({"text": "x" * MAX_CONTEXT_BYTES}))
    assert isinstance(result, Failed)
    assert f"context has {MAX_CONTEXT_BYTES + 12:,} bytes of JSON" in result.message
