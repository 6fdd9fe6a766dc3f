"""A receiver, a webhook that it stands behind, and a worker that makes deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from queuemgr.base import process_state
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.lifecycle import webhook_events
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.webhook_events import FLOW
from queuemgr.models import Execution, Webhook
from queuemgr.operations import webhooks
from queuemgr.operations.controls import Actor
from queuemgr.worker import webhook_delivery
from queuemgr.worker.application_code import outcome_of
from queuemgr.worker.work import Work
from tests.integration.conftest import PlayedWorker, let_time_pass
from tests.webhook_receiver import SECRET, Receiver, receiver

ANN = Actor("ann", "test")


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SLUICE_WEBHOOK_SECRETS", f"ops={SECRET}")
    monkeypatch.setenv("SLUICE_WEBHOOK_ALLOW_PRIVATE", "on")
    process_state.reset_settings()
    yield
    monkeypatch.undo()
    process_state.reset_settings()


@pytest.fixture
def there(secrets: None) -> Iterator[Receiver]:
    with receiver() as state:
        yield state


@pytest.fixture
def add_webhook(transactional_db: None, sent: list[Any], there: Receiver) -> Iterator[Callable[..., Webhook]]:
    """`add_webhook(events="failed")`: a webhook called ops, of the receiver."""

    def make(name: str = "ops", **fields: Any) -> Webhook:
        given = {"secret_name": "ops", "events": "finished failed cancelled lost batch_completed", **fields}
        return webhooks.add(name, given.pop("url", there.url), ANN, allow_private=True, **given)

    webhook_events.read_again()
    yield make
    webhook_events.read_again()


def deliveries() -> list[Execution]:
    return list(Execution.objects.filter(flow=FLOW).order_by("pk"))


def types() -> list[str]:
    return [row.payload["type"] for row in deliveries()]


def deliver_all(worker: PlayedWorker, *, retries: bool = True) -> None:
    """Have a worker make every delivery that is due, and as if time passed, what waits for a retry."""
    for _ in range(30):
        if retries:
            let_time_pass(Execution.objects.filter(flow=FLOW, state="waiting"))
        dispatch()
        grants = [grant for grant in worker.begin_all() if grant.flow == FLOW]
        if not grants:
            return
        for grant in grants:
            worker.end(grant, delivered(grant), next_too=False)


def delivered(grant: Grant) -> Any:
    """What a worker would have of this delivery."""
    signal = AbortSignal()
    return outcome_of(partial(webhook_delivery.deliver.run, Work(grant, signal)), signal)
