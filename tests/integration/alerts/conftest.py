"""A receiver of alerts, a mail sink, and alarms that stand when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest
from django.test import override_settings

from queuemgr.base import process_state
from queuemgr.base.scheduler_lock import database_now
from queuemgr.operations import alert_delivery, alert_state
from queuemgr.reporting.dashboard.alarms import Alarm
from tests.webhook_receiver import SECRET, Receiver, receiver

Look = Callable[..., int]


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiver() as state:
        monkeypatch.setenv("SLUICE_WEBHOOK_SECRETS", f"pager={SECRET}")
        monkeypatch.setenv("SLUICE_WEBHOOK_ALLOW_PRIVATE", "on")
        monkeypatch.setenv("SLUICE_ALERT_DESTINATIONS", f"pager={state.url}")
        process_state.reset_settings()
        yield state
    monkeypatch.undo()
    process_state.reset_settings()


@pytest.fixture
def mailed() -> Iterator[None]:
    with override_settings(EMAIL_BACKEND="django.core.mail.backends.locmem.EmailBackend"):
        yield


@pytest.fixture
def look(db: None, monkeypatch: pytest.MonkeyPatch) -> Look:
    """`look(alarm, …, seconds=60)`: so much later these stand, and what is due is sent."""
    moments = [database_now()]

    def later() -> datetime:
        return moments[-1]

    monkeypatch.setattr(alert_delivery, "database_now", later)

    def looked(*alarms: Alarm, seconds: float = 61) -> int:
        moments.append(moments[-1] + timedelta(seconds=seconds))
        alert_state.keep(alarms, moments[-1])
        return alert_delivery.send_due()

    return looked


def alarm(kind: str = "no worker", level: str = "bad", text: str = "no worker is live", **more: str) -> Alarm:
    return Alarm(kind, level, text, "workers", **more)  # type: ignore[arg-type]  # names of texts only
