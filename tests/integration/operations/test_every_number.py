"""Every number that people set, at every door: what one database could not hold is refused on both."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import models

from queuemgr.base.column_sizes import MAX_INTEGER
from queuemgr.base.errors import BadInput
from queuemgr.cli import exit_codes
from queuemgr.models import LIMIT_FIELDS, Limit, Queue, RetryPolicy
from queuemgr.operations import controls, limit_names
from queuemgr.operations.controls import Actor
from queuemgr.scheduling import limit_input, limit_rows, retry_policies
from tests.integration.cli.commands import run

pytestmark = pytest.mark.django_db(transaction=True)
ANN = Actor("ann", "test")

TOO_LARGE = [MAX_INTEGER + 1, 9_999_999_999_999, 2**63, 10**30]
NO_NUMBERS = ["1e400", "inf", "nan", "-1", "1_000_000_000_000"]


def numbers(model: type[models.Model], names: tuple[str, ...]) -> list[str]:
    kinds = models.IntegerField | models.FloatField
    return [name for name in names if isinstance(model._meta.get_field(name), kinds)]


LIMIT_NUMBERS = numbers(Limit, LIMIT_FIELDS)
POLICY_NUMBERS = numbers(RetryPolicy, retry_policies.POLICY_FIELDS)
REFUSED = (exit_codes.USAGE, exit_codes.COULD_NOT)
BY_COMMAND: dict[str, Callable[[str], list[str]]] = {
    **{name: lambda text, name=name: ["limit", "host:r", option(name, text)] for name in LIMIT_NUMBERS},  # type: ignore[misc]
    **{name: lambda text, name=name: ["policy", "network", option(name, text)] for name in POLICY_NUMBERS},  # type: ignore[misc]
    "the number of a bulk action": lambda text: ["bulk", "stop", text],
    "retries a minute": lambda text: ["retry-failed", "--per-minute", text],
}


def option(name: str, text: str) -> str:
    return f"--{name.replace('_', '-')}={text}"


def test_a_number_that_a_column_does_not_hold_is_refused_by_every_command() -> None:
    limit_rows.sync()
    accepted = []
    for door, words in BY_COMMAND.items():
        for text in (*map(str, TOO_LARGE), *NO_NUMBERS):
            done = run("queue", *words(text))
            if not (done.code in REFUSED and done.error):
                accepted.append((door, text, done))
    assert accepted == []


def edits() -> dict[str, Callable[[Any], object]]:
    doors: dict[str, Callable[[Any], object]] = {
        "a queue's max_pending": lambda value: controls.edit_queue("prep.high", ANN, max_pending=value)
    }
    for name in LIMIT_NUMBERS:
        doors[f"a limit's {name}"] = lambda value, name=name: controls.edit_limit(  # type: ignore[misc]
            "host:r", ANN, **{name: value}
        )
    for name in POLICY_NUMBERS:
        doors[f"a policy's {name}"] = lambda value, name=name: controls.edit_policy(  # type: ignore[misc]
            "network", "", ANN, **{name: value}
        )
    return doors


def test_a_number_that_a_column_does_not_hold_is_refused_by_every_operation() -> None:
    """These are what the API, the pages and undo call, too."""
    limit_rows.sync()
    retry_policies.make_missing()
    for door, edit in edits().items():
        for value in (*TOO_LARGE, -1, *(() if is_whole(door) else (math.inf, math.nan))):
            with pytest.raises((ValidationError, BadInput)):
                edit(value)
                pytest.fail(f"{door} took {value}")


def is_whole(door: str) -> bool:
    return door.split()[-1] not in ("base", "ceiling", "jitter")


@pytest.mark.parametrize("model", [Limit, Queue, RetryPolicy])
def test_the_pages_offer_no_number_that_a_column_does_not_hold(model: type[models.Model]) -> None:
    for field in model._meta.concrete_fields:
        if isinstance(field, models.PositiveIntegerField) and field.editable:
            form = field.formfield()
            assert form is not None
            assert field.clean(MAX_INTEGER, None) == MAX_INTEGER
            with pytest.raises(ValidationError, match=f"less than or equal to {MAX_INTEGER}"):
                field.clean(MAX_INTEGER + 1, None)


def test_the_largest_number_is_stored_and_read_back() -> None:
    limit_rows.sync()
    for name in ("max_running", "daily_budget", "share", "breaker_after"):
        value = limit_input.parse_limit_field("host:r", name, str(MAX_INTEGER))
        limit_input.validate(limit_names.limit_to_edit("host:r"), {name: value})
        assert getattr(controls.edit_limit("host:r", ANN, **{name: value}), name) == MAX_INTEGER
    assert Limit.objects.get(name="host:r").max_running == MAX_INTEGER
