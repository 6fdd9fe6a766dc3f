"""What a worker answers when it is asked through the broker: Celery's own settings, and no secret of any."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from celery import Celery
from celery.app.defaults import SETTING_KEYS
from celery.worker.control import Panel

from project.celery import app as our_app
from queuemgr.base import redaction
from queuemgr.base.redaction import register_secret
from queuemgr.worker.masked_conf import PREFIX, mask_answers, masked, masked_conf

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
        app = Celery("marked", set_as_current=False)
        app.conf.update({name: value})
        assert MARK not in str(masked_conf(app)), value


@pytest.mark.parametrize("url", URLS)
def test_a_password_that_is_in_no_setting_of_ours_is_found_in_its_url(url: str) -> None:
    app = Celery("marked", broker=url, set_as_current=False)
    app.conf.something_of_an_application = url
    shown = masked_conf(app)
    assert MARK not in str(shown) and "something_of_an_application" not in shown
    assert MARK not in str(masked({"broker": {"alternates": [url], url: 1}}))


def test_every_command_of_remote_control_answers_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    register_secret(MARK)

    def tells(state: Any, **kwargs: Any) -> dict[str, Any]:
        return {"ok": {MARK: [MARK, URLS[0]]}, "at": 1.5, "none": None}

    monkeypatch.setattr(Panel, "data", {name: tells for name in Panel.data})
    mask_answers()
    mask_answers()  # once more changes nothing
    for command in Panel.data.values():
        answer = command(None)
        assert MARK not in str(answer)
        assert (answer["at"], answer["none"]) == (1.5, None)
