"""The receiver of docs/webhooks.md takes what is sent, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from queuemgr.flows.outcomes import Done
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.models import Webhook
from tests.integration.conftest import PlayedWorker
from tests.integration.webhooks.conftest import deliver_all
from tests.webhook_receiver import SECRET, Receiver

PAGE = (Path(__file__).parents[3] / "docs" / "webhooks.md").read_text()


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


def test_the_receiver_of_the_page_verifies_what_is_sent_as_the_page_shows_it(
    add_webhook: Callable[..., Webhook], played: Callable[..., PlayedWorker], there: Receiver
) -> None:
    add_webhook()
    worker = played(slots=2)
    enqueue("probe", "a")
    (grant,) = worker.begin_all()
    worker.end(grant, Done(), next_too=False)
    deliver_all(worker)
    (request,) = there.requests
    page: dict[str, Any] = {}
    exec(block("python"), page)
    is_genuine = page["is_genuine"]
    assert is_genuine(request.headers, request.body, SECRET)
    assert not is_genuine(request.headers, request.body + b" ", SECRET)
    assert not is_genuine(request.headers, request.body, "whsec_" + "A" * 40)
    assert not is_genuine({**request.headers, "webhook-timestamp": "1"}, request.body, SECRET)
    shown = json.loads(block("json"))
    assert (shown.keys(), shown["data"].keys()) == (request.json.keys(), request.json["data"].keys())
