"""The rules of a flow may raise and return anything: what cannot be used is named with its flow and step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queuemgr.base.errors import RuleFailed
from queuemgr.flows import flow as flows
from queuemgr.flows.flow import Flow, Phase, Step
from queuemgr.scheduling.step_rules import first_step, needs_of, step_after, step_from

RULES = ("key", "cost", "weight", "resources", "uses")
NOT_USABLE: dict[str, list[Any]] = {
    "key": [None, 7, b"host:a", "host:a b", " host:a", "k" * 256, ["k" * 250] * 1 + ["l" * 250, "m" * 250],
            ["a", 7], "a\x00b", "half \ud83d"],
    "cost": [None, "1", 1.0, -1, 2**31, True, float("nan")],
    "weight": [None, "1", 1.5, 0, -1, 2**31, True, 10**70],
    "resources": [None, [1], {"cpu": "2"}, {"cpu": -1}, {"a b": 1}, {7: 1}, {"": 1},
               {f"resource{n}": 1 for n in range(30)}],
    "uses": [None, [1], {"coins": 1}, {"requests": 1}, {"tokens": "many"}, {"tokens": -1}, {7: 1}],
}  # fmt: skip

RAISED = [KeyError("host"), SystemExit(2), KeyboardInterrupt(), GeneratorExit(), MemoryError()]


@pytest.fixture(autouse=True)
def _no_other_flows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(flows, "_flows", {})
    yield


def odd_flow(**rules: Any) -> Flow:
    """A flow of two steps; the rules given are those of the second."""
    steps = (Step("one", "odd.one"), Step("two", "odd.two", **rules))
    return flows.register_flow(Flow("odd", (Phase("only", 0, "waiting", "running", steps),)))


def lie(*_: Any) -> Any:
    raise AssertionError("what it says was asked")


class Text(str):
    """That says it is another."""

    __str__ = __repr__ = __format__ = split = strip = __len__ = __iter__ = lie


class Number(int):
    __str__ = __repr__ = __format__ = __int__ = __index__ = __lt__ = __gt__ = __le__ = __ge__ = lie


def test_texts_and_numbers_of_an_applications_own_classes_are_what_they_are() -> None:
    odd_flow(
        key=lambda _: [Text("host:a"), Text("tenant:b")],
        cost=lambda _: Number(2),
        weight=lambda _: Number(3),
        resources=lambda _: {Text("cpu"): Number(2), Text("io"): Number(0)},
        uses=lambda _: {Text("tokens"): 5},
    )
    needs = needs_of(flows.get_flow("odd").at("only", "two"), {})
    assert needs == ("host:a tenant:b", 2, 3, "cpu=2", "tokens=5")
    assert {type(value) for value in needs} == {str, int}


def raising(error: BaseException) -> Any:
    def rule(context: Any) -> Any:
        raise error

    return rule


@pytest.mark.parametrize("error", RAISED, ids=repr)
@pytest.mark.parametrize("rule", [*RULES, "needed"])
def test_a_rule_that_raises_is_named_with_its_flow_and_step(rule: str, error: BaseException) -> None:
    odd_flow(**{rule: raising(error)})
    with pytest.raises(
        RuleFailed, match=f"^flow odd: {rule} of step two raised {type(error).__name__}"
    ) as failed:
        ref = step_after("odd", "only", "one", {})
        assert ref is not None
        needs_of(ref, {})
    assert failed.value.at.step.name == "two"


def test_the_sentence_quotes_the_error() -> None:
    odd_flow(key=lambda context: context["host"])
    with pytest.raises(RuleFailed) as failed:
        needs_of(flows.get_flow("odd").at("only", "two"), {})
    assert str(failed.value) == "flow odd: key of step two raised KeyError: 'host'"


@pytest.mark.parametrize(
    ("rule", "value"),
    [(rule, value) for rule in RULES for value in NOT_USABLE[rule]],
    ids=lambda v: f"{v!r:.30}",
)
def test_what_no_row_can_hold_is_refused(rule: str, value: Any) -> None:
    odd_flow(**{rule: lambda context: value})
    with pytest.raises(RuleFailed, match=f"^flow odd: {rule} of step two"):
        needs_of(flows.get_flow("odd").at("only", "two"), {})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(RULES), st.one_of(st.integers(), st.floats(), st.text(), st.binary(), st.none()))
def test_any_value_of_a_rule_is_used_or_refused(rule: str, value: Any) -> None:
    odd_flow(**{rule: lambda context: value})
    try:
        needs = needs_of(flows.get_flow("odd").at("only", "two"), {})
    except RuleFailed:
        return
    assert len(needs.limit_keys) <= 600
    assert 0 <= needs.cost < 2**31
    assert 0 < needs.weight < 2**31


def test_a_retry_continues_at_the_first_step_still_needed() -> None:
    odd_flow(needed=lambda context: context["two"])
    assert step_from("odd", "only", "two", {"two": True}).step.name == "two"
    assert first_step("odd", {"two": False}).step.name == "one"
    with pytest.raises(RuleFailed, match="no step from only/two on is needed"):
        step_from("odd", "only", "two", {"two": False})
