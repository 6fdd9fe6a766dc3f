"""A key without a row of its own follows its pattern, whatever was done to it in between; and what code no
longer states can be removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queuemgr.base.errors import BadInput
from queuemgr.flows import flow
from queuemgr.models import LIMIT_FIELDS, AuditEntry, Limit
from queuemgr.operations import controls, undo
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_rows
from tests.integration.conftest import rule_of

ANN = Actor("ann", "test", "because")
KEY, PATTERNS = "key:a:b", ("key:*", "key:a:*")

caps = st.integers(0, 9)
moves = st.lists(
    st.one_of(
        st.tuples(st.just("pause")),
        st.tuples(st.just("resume")),
        st.tuples(st.just("undo")),
        st.tuples(st.just("sync")),
        st.tuples(st.just("edit"), st.sampled_from((*PATTERNS, KEY)), caps),
        st.tuples(st.just("remove"), st.sampled_from((*PATTERNS, KEY))),
    ),
    max_size=12,
)


class Expected:
    """The values that were set, by name: the longest name that matches defines the key."""

    def __init__(self) -> None:
        self.caps: dict[str, int] = {}
        self.paused = False

    @property
    def cap(self) -> int:
        return next((self.caps[name] for name in (KEY, *reversed(PATTERNS)) if name in self.caps), 0)


@given(moves)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_key_has_its_own_values_or_those_of_its_pattern_whatever_was_paused_meanwhile(
    transactional_db: None, moves: list[tuple[Any, ...]]
) -> None:
    Limit.objects.filter(name__startswith="key:").delete()
    expected = Expected()
    for verb, *arguments in moves:
        _MOVES[verb](expected, *arguments)
        rule = rule_of(KEY)
        assert (rule.max_running, bool(rule.paused)) == (expected.cap, expected.paused)
        assert Limit.objects.filter(name=KEY).exists() is (expected.paused or KEY in expected.caps)


def _pause(expected: Expected) -> None:
    controls.pause(KEY, ANN, new=True)
    expected.paused = True


def _resume(expected: Expected) -> None:
    if expected.paused:
        controls.resume(KEY, ANN)
        expected.paused = False


def _undo(expected: Expected) -> None:
    """Of the last pause or resume, if nothing came after."""
    last = AuditEntry.objects.filter(target__startswith="key:").order_by("pk").last()
    if last and last.target == KEY and last.action in ("pause", "resume"):
        try:
            undo.undo(last, ANN)
        except undo.CannotUndo:
            return
        expected.paused = not expected.paused


def _edit(expected: Expected, name: str, cap: int) -> None:
    controls.edit_limit(name, ANN, new=True, max_running=cap)
    expected.caps[name] = cap


def _remove(expected: Expected, name: str) -> None:
    if name in expected.caps or (name == KEY and expected.paused):
        controls.remove_limit(name, ANN)
        expected.caps.pop(name, None)
        expected.paused = expected.paused and name != KEY


_MOVES: Mapping[str, Callable[..., None]] = {
    "pause": _pause, "resume": _resume, "undo": _undo, "edit": _edit, "remove": _remove,
    "sync": lambda expected: limit_rows.sync(),
}  # fmt: skip


@pytest.fixture
def state_limits(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[str, Mapping[str, Any]]], None]:
    """Have a flow state these limits, as a release does."""

    def state(limits: Mapping[str, Mapping[str, Any]]) -> None:
        name, known = next((name, known) for name, known in flow._flows.items() if name != "probe")
        monkeypatch.setitem(flow._flows, name, replace(known, limits=lambda: limits))
        limit_rows.sync()

    return state


@pytest.mark.django_db(transaction=True)
def test_a_limit_is_removed_once_no_code_states_it_and_not_before(state_limits: Callable[..., None]) -> None:
    state_limits({"old:limit": {"max_running": 3}})
    with pytest.raises(BadInput, match="is stated by the settings or a flow and stays"):
        controls.remove_limit("old:limit", ANN)
    state_limits({})
    controls.remove_limit("old:limit", ANN)
    limit_rows.sync()
    assert not Limit.objects.filter(name="old:limit").exists()
    assert AuditEntry.objects.filter(action="remove limit", target="old:limit", actor="ann").count() == 1


FLEET_VALUES: Mapping[str, Any] = {
    "max_running": 9, "reserved_high": 1, "daily_budget": 500, "reserved_for_high_percent": 20, "rate": "5/s",
    "share": 2,
}  # fmt: skip


@pytest.mark.django_db(transaction=True)
@given(st.sets(st.sampled_from(sorted(FLEET_VALUES))))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_flow_that_states_some_fields_of_the_fleet_keeps_the_others_of_the_settings(
    configure: Callable[..., None], state_limits: Callable[..., None], stated: set[str]
) -> None:
    configure(max_workers=40, high_priority_reserved=4, daily_budget=77)
    Limit.objects.filter(name="fleet").delete()
    state_limits({})
    plain = {field: getattr(Limit.objects.get(name="fleet"), field) for field in LIMIT_FIELDS}
    Limit.objects.filter(name="fleet").delete()
    state_limits({"fleet": {field: FLEET_VALUES[field] for field in stated}})
    fleet = Limit.objects.get(name="fleet")
    expected = {**plain, **{field: FLEET_VALUES[field] for field in stated}}
    if "daily_budget" in stated and "reserved_for_high_percent" not in stated:
        expected["reserved_for_high_percent"] = 0  # who states a budget states all of it
    assert {field: getattr(fleet, field) for field in LIMIT_FIELDS} == expected


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("cap", "reserved"), [(1, 0), (2, 1), (4, 3), (5, 4), (0, 4)])
def test_the_reserve_of_the_settings_fits_the_cap_a_flow_states(
    configure: Callable[..., None], state_limits: Callable[..., None], cap: int, reserved: int
) -> None:
    configure(max_workers=40, high_priority_reserved=4)
    state_limits({"fleet": {"max_running": cap}})
    assert Limit.objects.get(name="fleet").reserved_high == reserved
