"""What a worker answers when it is asked through the broker: Celery's own settings, and no secret of any."""

from __future__ import annotations

from contextlib import suppress
from time import process_time
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from celery import Celery
from celery.app.defaults import SETTING_KEYS
from celery.utils.collections import LimitedSet
from celery.worker import state as worker_state
from celery.worker.control import Panel

from project.celery import app as our_app
from queuemgr.base import redaction
from queuemgr.base.redaction import register_secret, without_secrets
from queuemgr.worker import remote_control
from queuemgr.worker.masked_conf import PREFIX, mask_answers, mask_settings, masked, masked_conf
from queuemgr.worker.remote_control import MAX_IDS, MAX_TEXT
from tests.malformed_messages import ODD_ARGUMENTS, POISON

MARK = "marked-secret-of-conf"
URLS = (
    f"redis://:{MARK}@127.0.0.1:6379/0", f"amqp://u:{MARK}@h//;amqp://v:{MARK}@i//", f"https://{MARK}@h/",
    f"rediss://h/0?password={MARK}",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_secrets", set())


def test_celery_is_given_its_own_settings_and_none_of_djangos() -> None:
    """It shows all it is given: `celery report`, `inspect conf`, and whatever a future release adds."""
    given = {name.lower().removeprefix(PREFIX) for name in our_app.conf.table(with_defaults=False)}
    assert "broker_url" in given
    assert given - {"deprecated_settings"} <= SETTING_KEYS | {"beat_schedule"}
    assert "DATABASES" not in our_app.conf
    password = urlsplit(our_app.conf.broker_url).password
    assert password and password not in our_app.bugreport()


@pytest.mark.parametrize("name", sorted(SETTING_KEYS))
def test_no_setting_of_celery_tells_a_password(name: str) -> None:
    register_secret(MARK)
    for value in (*URLS, MARK, {"deep": [MARK, *URLS]}):
        with Celery("marked", set_as_current=False) as app:
            app.conf.update({name: value})
            assert MARK not in str(masked_conf(app)), value


@pytest.mark.parametrize("url", URLS)
def test_a_password_that_is_in_no_setting_of_ours_is_found_in_its_url(url: str) -> None:
    with Celery("marked", broker=url, set_as_current=False) as app:
        app.conf.something_of_an_application = url
        shown = masked_conf(app)
    assert MARK not in str(shown) and "something_of_an_application" not in shown
    assert MARK not in str(masked({"broker": {"alternates": [url], url: 1}}))


def test_every_command_of_remote_control_answers_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    register_secret(MARK)

    def tells(state: Any, **kwargs: Any) -> dict[str, Any]:
        return {"ok": {MARK: [MARK, URLS[0]]}, "at": 1.5, "none": None}

    monkeypatch.setattr(Panel, "data", {name: tells for name in Panel.data})
    mask_answers(our_app)
    mask_answers(our_app)  # once more changes nothing
    for command in Panel.data.values():
        answer = command(None)
        assert MARK not in str(answer)
        assert (answer["at"], answer["none"]) == (1.5, None)


@pytest.mark.parametrize("url", URLS)
def test_the_password_of_a_setting_of_celery_is_masked_wherever_it_is_said(url: str) -> None:
    with Celery("marked", broker=url, set_as_current=False) as app:
        mask_settings(app)
    assert MARK not in without_secrets(f"somebody said {MARK}")


ASKED_AFTER: list[tuple[str, dict[str, Any]]] = [
    ("revoke", {"task_id": POISON}), ("revoked", {}), ("hello", {"from_node": "v@h"}),
]  # fmt: skip


def test_no_message_to_a_worker_makes_a_word_a_secret_or_takes_it_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Panel, "data", dict(Panel.data))
    monkeypatch.setattr(worker_state, "revoked", LimitedSet(maxlen=50_000))
    remote_control.restrict()
    mask_answers(our_app)
    known = set(redaction._secrets)
    state = SimpleNamespace(app=our_app, hostname="w@h")
    for name, arguments in [*ODD_ARGUMENTS, *ASKED_AFTER]:
        began = process_time()
        with suppress(AttributeError, TypeError):  # which Celery answers
            Panel.data[name](state, **arguments)
        assert process_time() - began < 0.5, (name, str(arguments)[:80])
    assert redaction._secrets == known
    assert 900 < len(worker_state.revoked) <= MAX_IDS
    assert max(map(len, worker_state.revoked)) <= MAX_TEXT
