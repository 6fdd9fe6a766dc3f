"""A function with a schedule: `@queued(schedule=cron(…))`."""

from __future__ import annotations

import pytest

from queuemgr import ConfigurationError, queued
from queuemgr.schedules import cron, declaration, every
from queuemgr.schedules.declaration import registered

pytestmark = pytest.mark.usefixtures("declaring")


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declaration, "_registered", {})


def test_a_decorated_function_is_called_on_schedule() -> None:
    @queued(name="shop.rebuild", schedule=cron("@daily", zone="Europe/Berlin"), misfire="skip", jitter=60)
    def rebuild(full: bool = False) -> None: ...

    rebuild.on_schedule("weekly rebuild", cron("0 4 * * sun"), arguments={"full": True}, priority="low")
    daily, weekly = registered()
    assert daily.name == daily.flow == "shop.rebuild"
    assert daily.fields() == {
        "flow": "shop.rebuild", "timing": "cron 0 0 * * * in Europe/Berlin", "payload": {}, "priority": 1,
        "misfire": "skip", "misfire_limit": 100, "overlap": "skip", "jitter": 60,
    }  # fmt: skip
    assert (weekly.fields()["payload"], weekly.fields()["priority"]) == ({"full": True}, 2)


def test_a_function_that_needs_arguments_is_refused_a_schedule_without_them() -> None:
    with pytest.raises(ConfigurationError, match=r"schedule shop.send: shop.send.*missing.*host"):

        @queued(name="shop.send", schedule=every(minutes=5))
        def send(host: str) -> None: ...
