"""What a worker tells through the broker: of its configuration Celery's own settings, and never a secret.

Whoever reaches the broker, and whoever may look at Flower, can ask a worker. Celery answers with all settings
it was configured from, which may be all of Django's, and hides only those whose names it knows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from celery.app.defaults import SETTING_KEYS
from celery.app.utils import HIDDEN_SETTINGS  # type: ignore[attr-defined]  # not in its stubs
from celery.utils.saferepr import saferepr
from celery.utils.serialization import jsonify, strtobool
from celery.worker.control import Panel, inspect_command

from queuemgr.base.credentials import register_url_credentials
from queuemgr.base.redaction import without_secrets

PREFIX = "celery_"


def masked(value: Any) -> Any:
    """An answer with secrets, and passwords of URLs, masked in each of its texts."""
    if isinstance(value, dict):
        return {masked(name): masked(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [masked(inner) for inner in value]
    if not isinstance(value, str):
        return value
    register_url_credentials(value)
    return without_secrets(value)


@inspect_command(alias="dump_conf", signature="[include_defaults=False]", args=[("with_defaults", strtobool)])
def conf(state: Any, with_defaults: bool = False, **kwargs: Any) -> dict[str, Any]:
    """List Celery's own settings, without secrets."""
    return masked_conf(state.app, with_defaults=with_defaults)


def masked_conf(app: Any, *, with_defaults: bool = False) -> dict[str, Any]:
    """Celery's own settings of an application by their names of today, without secrets."""
    stated = app.conf.table(with_defaults=with_defaults, censored=False)
    today = {str(name).lower().removeprefix(PREFIX): value for name, value in stated.items()}
    own = {name: value for name, value in today.items() if name in SETTING_KEYS}
    answer: dict[str, Any] = masked(_censored(jsonify(own, unknown_type_filter=saferepr)))
    return answer


def _censored(settings: dict[str, Any]) -> dict[str, Any]:
    """Without the values that Celery hides by their names. Its own function does this, and raises for some
    URLs of a broker."""
    return {name: "********" if HIDDEN_SETTINGS.search(name) else _censored(value) if isinstance(value, dict)
            else value for name, value in settings.items()}  # fmt: skip


def mask_answers() -> None:
    """Mask what every command of remote control answers: statistics name the broker, requests arguments."""
    for name, command in Panel.data.items():
        if not hasattr(command, "answers_masked"):
            Panel.data[name] = _with_masked_answer(command)


def _with_masked_answer(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def answer(*args: Any, **kwargs: Any) -> Any:
        return masked(command(*args, **kwargs))

    answer.answers_masked = True  # type: ignore[attr-defined]  # a mark of ours
    return answer
