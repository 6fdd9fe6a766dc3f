"""Remote control of a worker: every command of Celery is answered, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from celery.worker import control

from queuemgr.worker.remote_control import ANSWERED, RestrictedCommands


def commands(**own: Any) -> RestrictedCommands:
    return RestrictedCommands({name: answering(name) for name in [*control.Panel.data, *own]})


def answering(name: str) -> Any:
    return lambda state, **arguments: f"{name} was done"


CHANGING = sorted(set(control.Panel.meta) - set(ANSWERED))


def test_what_is_answered_are_questions_but_for_two_that_do_no_harm() -> None:
    kinds = {name: control.Panel.meta[name].type for name in ANSWERED if name in control.Panel.meta}
    assert {name for name, kind in kinds.items() if kind == "control"} == {"revoke", "enable_events"}
    assert set(ANSWERED) <= set(control.Panel.data)


@pytest.mark.parametrize("name", [*CHANGING, "a command of an application", "", None, 7, "shutdown\n\x1b[2J"])
def test_every_other_command_is_refused_by_name(name: Any, caplog: pytest.LogCaptureFixture) -> None:
    answer = commands(shutdown_all=None)[name](None, destination=["w"], queue="prep.normal", n=1)
    assert answer["error"].startswith("refused: ")
    assert "refused the remote control command" in caplog.text
    assert "\x1b" not in caplog.text


def test_a_command_that_is_registered_later_is_refused_as_well() -> None:
    restricted = commands()
    restricted["own"] = answering("own")
    assert "refused" in restricted["own"](None)["error"]


@pytest.mark.parametrize("name", ANSWERED)
def test_a_question_is_answered_with_what_clients_send_and_no_more(name: str) -> None:
    defaults = {"terminate": False, "signal": None, "taskinfoitems": (), "limit": 0}
    allowed = dict.fromkeys(ANSWERED[name], "x")
    assert commands()[name](None, **allowed, **defaults) == f"{name} was done"
    for extra in ({"terminate": True}, {"signal": "KILL"}, {"taskinfoitems": ["__dict__"]}):
        assert "refused" in commands()[name](None, **allowed, **extra)["error"]
