"""`SLUICE_MAX_<PHASE>`: a setting for each phase a flow declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from queuemgr import ConfigurationError, Flow, Phase, Step, register_flow
from queuemgr.base.settings_group import apply_command_line
from queuemgr.flows import flow
from queuemgr.scheduling.phase_settings import phase_caps, phase_settings_group


def press(*names: str, max_running: int = 0) -> Flow:
    steps = (Step("work", "press.work"),)
    return Flow("press", tuple(Phase(n, 0, "w", "r", steps, max_running) for n in names))


@pytest.fixture(autouse=True)
def _only_the_press(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(flow, "_flows", {})
    register_flow(press("print", "bind", max_running=3))
    yield


def test_a_phase_has_the_cap_its_flow_declares() -> None:
    assert phase_caps() == {"print": 3, "bind": 3}


def test_the_cap_of_any_phase_is_set_by_environment_settings_and_command_line(
    configure: Callable[..., None], settings: Any
) -> None:
    configure(max_print=4)
    assert phase_caps() == {"print": 4, "bind": 3}
    settings.SLUICE_MAX_BIND = 5
    configure(max_print=0)
    assert phase_caps() == {"print": 0, "bind": 5}
    apply_command_line({"max_print": "6"})
    assert phase_caps() == {"print": 6, "bind": 5}


def test_an_invalid_cap_is_refused_with_its_range(configure: Callable[..., None]) -> None:
    configure(max_print=-1, max_bind="many")
    with pytest.raises(ConfigurationError, match=r"SLUICE_MAX_PRINT='-1'.*SLUICE_MAX_BIND='many'"):
        phase_caps()


def test_a_flow_registered_later_has_its_settings_too() -> None:
    assert phase_caps()
    register_flow(press("fold"))
    assert phase_caps() == {"fold": 0}


def test_a_phase_whose_setting_the_queue_has_itself_is_refused() -> None:
    register_flow(press("workers"))
    with pytest.raises(ConfigurationError, match="SLUICE_MAX_WORKERS is a setting of the whole"):
        phase_settings_group()
