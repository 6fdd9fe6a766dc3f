"""Every command that changes several things says which it changed, which it did not and why."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.contrib.auth.models import User

from queuemgr.flows.outcomes import Done, Failed
from queuemgr.models import Execution, State
from queuemgr.operations import api_tokens
from queuemgr.operations.controls import Actor
from tests.integration.cli.commands import queue
from tests.integration.cli.test_every_command import leaves, parser

pytestmark = pytest.mark.django_db(transaction=True)
ANN = Actor("ann", "test", "x")

MORE = {
    "cancel": ("--reason", "x"), "skip": ("--reason", "x"), "retry": ("--reason", "x"), "priority": ("high",),
    "reschedule": ("2h",), "token revoke": ("--reason", "x"),
}  # fmt: skip
"""What each takes before its names."""


def takes_several(of: argparse.ArgumentParser) -> bool:
    return any(action.nargs == "+" and not action.option_strings for action in of._actions)


SEVERAL = sorted(path for path, each in leaves(parser()) if takes_several(each))


@pytest.fixture
def scene(sent: list[Any], played: Any, probes: Any) -> Callable[[str], Sequence[str]]:
    """Names of which a command can change the first only."""

    def made(command: str) -> Sequence[str]:
        if command == "token revoke":
            ann = User.objects.create_user("ann")
            tokens = [api_tokens.make(name, ann, ["read"], ANN)[0] for name in ("a", "b")]
            api_tokens.revoke(tokens[1:], ANN)
            return ("a", "b")
        worker = played(slots=1)
        probes(3)
        (one,) = worker.begin_all()
        failed = command == "retry"
        worker.end(one, Failed("not_found", "404") if failed else Done(), next_too=False)
        waiting = Execution.objects.filter(state=State.WAITING).latest("pk").key
        return (one.key, waiting) if failed else (waiting, one.key)

    return made


def test_every_command_that_takes_several_is_tried() -> None:
    assert sorted(MORE) == SEVERAL


@pytest.mark.parametrize("command", SEVERAL)
@pytest.mark.parametrize("as_json", [True, False])
def test_what_was_done_and_what_was_not_is_named_with_the_reason(
    scene: Callable[[str], Sequence[str]], command: str, as_json: bool
) -> None:
    first, second = scene(command)
    values = [each for each in MORE[command] if command in ("priority", "reschedule")]
    options = [each for each in MORE[command] if each not in values]
    result = queue(*command.split(), *values, first, second, first, *options, *["--json"] * as_json)
    assert result.code == 2, result
    if not as_json:
        assert "1 " in result.lines[-1] and (second in result.out or command == "token revoke")
        return
    (said,) = result.records
    assert said.get("keys", said.get("names")) == [first]
    assert [*said["unchanged"]] == [second] and said["unchanged"][second]
    assert len(said.get("ids", [1])) == 1
    again = queue(*command.split(), *values, second, *options, "--json")
    assert (again.code, [*again.records[0]["unchanged"]]) == (2, [second])


def test_retry_failed_names_those_that_cannot_be_retried(scene: Callable[[str], Sequence[str]]) -> None:
    failed, _ = scene("retry")
    Execution.objects.filter(key=failed).update(phase="gone", step="gone")
    result = queue("retry-failed", "--reason", "x", "--json")
    assert result.code == 2
    (said,) = result.records
    assert (said["changed"], said["left_unchanged"]) == (0, 1)
    assert "step is gone" in said["unchanged"][f"probe/{failed}"]
