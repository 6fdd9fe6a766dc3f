"""What a worker tells through the broker: of its configuration Celery's own settings, and never a secret.

Whoever reaches the broker, and whoever may look at Flower, can ask a worker. Celery answers with all settings
it was configured from, which may be all of Django's, and hides only those whose names it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from celery.app.defaults import SETTING_KEYS
from celery.app.utils import HIDDEN_SETTINGS  # type: ignore[attr-defined]  # not in its stubs
from celery.utils.saferepr import saferepr
from celery.utils.serialization import jsonify, strtobool
from celery.worker.control import Panel, inspect_command

from queuemgr.base.credentials import register_url_credentials, without_url_credentials
from queuemgr.base.redaction import without_secrets

PREFIX = "celery_"


def masked(value: Any) -> Any:
    """An answer with secrets, and passwords of URLs, masked in each of its texts. Whoever reaches the
    broker wrote some of them: none makes a word a secret."""
    if isinstance(value, dict):
        return {masked(name): masked(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [masked(inner) for inner in value]
    return masked_text(value) if isinstance(value, str) else value


def masked_text(text: str) -> str:
    return without_secrets(without_url_credentials(text))


@inspect_command(alias="dump_conf", signature="[include_defaults=False]", args=[("with_defaults", strtobool)])
def conf(state: Any, with_defaults: bool = False, **kwargs: Any) -> dict[str, Any]:
    """List Celery's own settings, without secrets."""
    return masked_conf(state.app, with_defaults=with_defaults)


def masked_conf(app: Any, *, with_defaults: bool = False) -> dict[str, Any]:
    """Celery's own settings of an application by their names of today, without secrets."""
    answer: dict[str, Any] = masked(_censored(_settings(app, with_defaults=with_defaults)))
    return answer


def mask_settings(app: Any) -> None:
    """Mask from now on the passwords of the URLs among Celery's settings."""
    for text in _texts_in(_settings(app, with_defaults=False)):
        register_url_credentials(text)


def _settings(app: Any, *, with_defaults: bool) -> dict[str, Any]:
    stated = app.conf.table(with_defaults=with_defaults, censored=False)
    today = {str(name).lower().removeprefix(PREFIX): value for name, value in stated.items()}
    own = {name: value for name, value in today.items() if name in SETTING_KEYS}
    settings: dict[str, Any] = jsonify(own, unknown_type_filter=saferepr)
    return settings


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts_in([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_in(inner)


def _censored(settings: dict[str, Any]) -> dict[str, Any]:
    """Without the values that Celery hides by their names. Its own function does this, and raises for some
    URLs of a broker."""
    return {name: "********" if HIDDEN_SETTINGS.search(name) else _censored(value) if isinstance(value, dict)
            else value for name, value in settings.items()}  # fmt: skip


def mask_answers(app: Any) -> None:
    """Mask what every command of remote control answers: statistics name the broker, requests arguments."""
    mask_settings(app)
    for name, command in Panel.data.items():
        if not hasattr(command, "answers_masked"):
            Panel.data[name] = _with_masked_answer(command)


def _with_masked_answer(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def answer(*args: Any, **kwargs: Any) -> Any:
        return masked(command(*args, **kwargs))

    answer.answers_masked = True  # type: ignore[attr-defined]  # a mark of ours
    return answer
