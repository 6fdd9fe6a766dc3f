"""Whatever is enqueued or named is stored as given, or refused with a sentence: on both databases alike."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from itertools import count
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.flows.flow import Flow, NewExecution, Phase, Step, register_flow
from queuemgr.flows.retry_policy import Policy
from queuemgr.lifecycle.enqueue import enqueue, enqueue_many
from queuemgr.models import LIMIT_FIELDS, AuditEntry, Execution
from queuemgr.operations import api_tokens, batches, controls, executions, users
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows

pytestmark = pytest.mark.django_db(transaction=True)

ANN = Actor("ann", "test")
numbers = count()


@pytest.fixture(autouse=True)
def _nothing_is_sent(sent: list[Any]) -> None: ...


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
STORABLE = (
    st.none() | st.booleans() | st.integers() | st.integers(0, 400).map(lambda n: 10**n + 1)
    | st.floats() | st.floats(1e15, 1e308) | ANY_TEXT
)  # fmt: skip
NOT_JSON = st.sampled_from([
    datetime.now(UTC), {1}, b"x", Decimal("1.5"), uuid4(), object(), 1j, MappingProxyType({"a": 1}),
])  # fmt: skip
VALUES = st.recursive(
    STORABLE | NOT_JSON,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT | st.integers() | st.none(), inner, max_size=3)
    ),
    max_leaves=6,
)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@settings(
    max_examples=150, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(st.dictionaries(ANY_TEXT, VALUES, max_size=3) | VALUES)
@example({"a": {"b\x00": 1}})
@example({"a": "\ud83d\ude00"})
@example({"a": 1e23, "b": 1e308, "c": -0.0, "d": 5e-324, "e": 1e16})
@example({"a": float("nan")})
@example({"a": nested(98)})
@example({"a": nested(900)})
@example({"a": nested(5000)})
@example({"a": "\\u0000"})
@example({"a": "x" * 70_000})
@example([])
def test_a_payload_is_stored_and_read_back_equal_or_refused(payload: Any) -> None:
    key = f"k{next(numbers)}"
    try:
        enqueue("probe", key, payload)
    except BadInput as refused:
        assert str(refused)
        assert not Execution.objects.filter(key=key).exists()
    else:
        assert Execution.objects.get(key=key).payload == ({} if payload is None else payload)


def test_a_number_of_more_digits_than_python_reads_back_is_refused() -> None:
    with pytest.raises(BadInput, match="not JSON"):
        enqueue("probe", "k", {"n": 10**5000})


def test_what_is_json_in_all_but_its_type_is_stored_as_json() -> None:
    class Size(enum.StrEnum):
        SMALL = "small"

    enqueue("probe", "k", {"size": Size.SMALL, "pair": (1, 2), "map": MappingProxyType({"a": True})})
    assert Execution.objects.get().payload == {"size": "small", "pair": [1, 2], "map": {"a": True}}


BAD_TEXTS: dict[str, Any] = {
    "a NUL": "a\x00b", "half a surrogate pair": "a\ud800b", "a surrogate pair": "\ud83d\ude00",
    "too long": "k" * 3000, "a number": 5, "bytes": b"k", "None": None,
}  # fmt: skip


@pytest.mark.parametrize("text", BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_a_key_no_row_can_hold_is_refused_with_a_sentence_and_the_rest_of_its_call_too(text: Any) -> None:
    with pytest.raises(BadInput, match="key"):
        enqueue("probe", text)
    with pytest.raises(BadInput, match="key"):
        enqueue_many("probe", [NewExecution("good"), NewExecution(text)])
    batch = batches.open_batch("nightly", "probe", ANN)
    with pytest.raises(BadInput, match="key"):
        batches.add(batch, [NewExecution(text)])
    assert not Execution.objects.exists()


def _pause(text: Any) -> None:
    controls.pause(f"host:{text}", ANN)


WRITES: dict[str, Callable[[Any], object]] = {
    "a batch's name": lambda text: batches.open_batch(text, "probe", ANN),
    "the name of a batch to find": batches.find,
    "a paused limit": _pause,
    "a resumed limit": lambda text: controls.resume(f"host:{text}", ANN),
    "an edited limit": lambda text: controls.edit_limit(f"host:{text}", ANN, max_running=1),
    "a removed limit": lambda text: controls.remove_limit(f"host:{text}", ANN),
    "a reason": lambda text: controls.pause("everything", Actor("ann", "test", text)),
    "an actor": lambda text: controls.pause("everything", Actor(text, "test")),
    "a source": lambda text: controls.pause("everything", Actor("ann", text)),
    "the reason a batch is cancelled": lambda text: batches.cancel(
        batches.open_batch("b", "probe", ANN), Actor("ann", "test", text)
    ),
    "a user": lambda text: users.give_role(text, "viewer", ANN),
    "a token's name": lambda text: api_tokens.make(text, User.objects.create_user("t"), ["read"], ANN),
    **{
        f"a limit's {name}": lambda text, name=name: controls.edit_limit("fleet", ANN, **{name: text})  # type: ignore[misc]
        for name, field in LIMIT_FIELDS.items()
        if not field.is_number
    },
    "an edited payload": lambda text: executions.retry_with_payload(_failed(), {"a": text}, ANN),
    "a skipped one's reason": lambda text: executions.skip([_failed()], Actor("ann", "test", text)),
}


def _failed() -> Execution:
    enqueue("probe", "failed")
    Execution.objects.update(state="failed", finished_at=datetime.now(UTC), route=None)
    return Execution.objects.get()


@pytest.mark.parametrize("what", WRITES)
def test_text_no_column_can_hold_is_refused_or_made_such_whoever_writes_it(what: str) -> None:
    """By a sentence: never by the database, which would be an error of ours."""
    limit_rows.sync()
    for name in ("a NUL", "half a surrogate pair", "too long"):
        Execution.objects.all().delete()
        batches.Batch.objects.all().delete()
        User.objects.all().delete()
        try:
            WRITES[what](BAD_TEXTS[name])
        except (BadInput, ValidationError) as refused:
            assert str(refused), name
    for entry in AuditEntry.objects.all():
        assert len(entry.reason) <= 200


@pytest.mark.parametrize("priority", [-1, 3, 2**40, "high", None, [1], 1.5])
def test_a_priority_that_is_none_is_refused(priority: Any) -> None:
    with pytest.raises(BadInput, match="priority"):
        enqueue("probe", "k", priority=priority)


@pytest.mark.parametrize(
    "when",
    [
        datetime(9999, 12, 31, tzinfo=timezone(timedelta(hours=-14))),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(2026, 1, 1),  # noqa: DTZ001  # what is refused
        "2026-01-01",
    ],
)  # fmt: skip
def test_a_time_that_is_none_to_a_database_is_refused(when: Any) -> None:
    with pytest.raises(BadInput, match="run_after"):
        enqueue("probe", "k", run_after=when)


@pytest.mark.parametrize("name", ["", "x" * 201, "a\x00b", "a\ud800"])
def test_a_flow_whose_names_fit_no_column_is_refused_when_it_is_registered(name: str) -> None:
    good = Step("one", "t.one")
    flows = [
        Flow(name, (Phase("prep", 2, "w", "r", (good,)),)),
        Flow("letters", (Phase("prep", 2, "w", "r", (Step(name, "t.one"),)),)),
        Flow("letters", (Phase("prep", 2, "w", "r", (good,)),), error_kinds={name: Policy(1)}),
    ]
    for flow in flows:
        with pytest.raises(ConfigurationError, match="printable characters fit"):
            register_flow(flow)
