"""Which flow work goes into when nobody names one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queuemgr import BadInput, Flow, NewExecution, Phase, register_flow
from queuemgr.base.errors import UnknownFlow
from queuemgr.flows import flow
from queuemgr.operations.enqueueing import choose_flow

PHASE = Phase("print", 0, "queued", "printing", ())


@pytest.fixture(autouse=True)
def _only_the_probe_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "_flows", {})
    flow._build_derived()


def test_the_only_flow_of_the_application_is_the_default() -> None:
    press = register_flow(Flow("press", (PHASE,)))
    assert choose_flow("") == choose_flow(None) == press
    assert choose_flow("probe").name == "probe"


@pytest.mark.parametrize("names", [(), ("press", "leaflets")])
def test_without_a_default_the_refusal_lists_the_flows(names: tuple[str, ...]) -> None:
    for name in names:
        register_flow(Flow(name, (PHASE,)))
    known = ", ".join(sorted(names)) or "none"
    with pytest.raises(BadInput, match=f"set SLUICE_DEFAULT_FLOW; registered: {known}"):
        choose_flow(None)


def test_of_several_the_only_one_that_takes_items_is_the_default() -> None:
    press = register_flow(Flow("press", (PHASE,), parse_item=NewExecution))
    register_flow(Flow("leaflets", (PHASE,)))
    assert choose_flow(None) == press


def test_a_setting_names_the_default_of_several(configure: Callable[..., None]) -> None:
    for name in ("press", "leaflets"):
        register_flow(Flow(name, (PHASE,)))
    configure(default_flow="leaflets")
    assert choose_flow(None).name == "leaflets"
    assert choose_flow("press").name == "press"


def test_a_flow_that_is_not_registered_is_refused(configure: Callable[..., None]) -> None:
    register_flow(Flow("press", (PHASE,)))
    configure(default_flow="leaflets")
    with pytest.raises(UnknownFlow, match="no flow is called 'leaflets'; registered: "):
        choose_flow(None)
