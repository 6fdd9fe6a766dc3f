"""What a flow declares, and what several flows come to together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from queuemgr import ConfigurationError, Flow, Phase, Policy, Step, no_retry, register_flow
from queuemgr.flows import flow
from queuemgr.flows.retry_policy import POLICIES
from queuemgr.scheduling.step_rules import first_step
from queuemgr.worker import message_hand_over, webhook_delivery

PRINT = Phase("print", 0, "queued", "printing", (Step("print", "press.print"),), max_running=3)
BIND = Phase("bind", 1, "printed", "binding", (Step("bind", "press.bind"),))
PRESS = Flow("press", (PRINT, BIND), error_kinds={"out_of_ink": Policy(3, 60, 600, 5, "no ink")})


@pytest.fixture(autouse=True)
def _only_the_probe_flow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(flow, "_flows", {})
    flow._build_derived()
    yield


def test_phases_of_one_name_share_the_smallest_cap_above_0() -> None:
    register_flow(PRESS)
    register_flow(Flow("leaflets", (replace(PRINT, max_running=0, rank=5),)))
    register_flow(Flow("posters", (replace(PRINT, max_running=2, rank=5),)))
    assert flow.all_phases()["print"] == replace(PRINT, max_running=2)


def test_the_probe_flow_has_the_phases_of_the_flows_registered_before_or_after_it() -> None:
    assert [phase.name for phase in flow.get_flow("probe").phases] == ["probe"]
    register_flow(PRESS)
    probe = flow.get_flow("probe")
    assert [(phase.name, phase.waiting) for phase in probe.phases] == [
        ("print", "queued"), ("bind", "printed"),
    ]  # fmt: skip
    assert first_step("probe", {}).phase.name == "print"
    assert first_step("probe", {"phase": "bind"}).phase.name == "bind"
    assert list(flow.all_phases()) == ["print", "bind"]


def test_the_probe_flow_is_no_flow_of_an_application() -> None:
    register_flow(PRESS)
    assert flow.application_flows() == (PRESS,)


def test_error_kinds_are_the_generic_ones_and_those_of_the_flows() -> None:
    register_flow(PRESS)
    ours = {**webhook_delivery.ERROR_KINDS, **message_hand_over.ERROR_KINDS}
    assert flow.all_error_kinds() == {**POLICIES, **PRESS.error_kinds, **ours}
    assert flow.default_policy("out_of_ink").max_attempts == 3
    assert flow.default_policy("unknown kind") == POLICIES["unexpected"]


@pytest.mark.parametrize("kind", ["network", "out_of_ink"])
def test_a_kind_of_error_is_defined_once(kind: str) -> None:
    register_flow(PRESS)
    register_flow(Flow("posters", (PRINT,), error_kinds=PRESS.error_kinds))
    with pytest.raises(ConfigurationError, match=f"error kind '{kind}' is defined already"):
        register_flow(Flow("leaflets", (PRINT,), error_kinds={kind: no_retry("never")}))


@pytest.mark.parametrize("name", ["", "Print", "pre-press", "a.b", "1st", "x" * 33])
def test_a_phase_that_could_name_no_queue_or_setting_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="lower-case letters"):
        replace(PRINT, name=name)
