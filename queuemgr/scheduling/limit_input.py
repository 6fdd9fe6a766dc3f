"""Parses and validates the fields of limits and retry policies that people write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Model

from queuemgr.base.allowance import allowances_in, parse_allowance
from queuemgr.base.errors import BadInput
from queuemgr.base.meters import meter_named
from queuemgr.models import LIMIT_FIELDS, SHORT_OR_LONG, Limit, RetryPolicy


def parse_limit_field(name: str, field: str, text: str) -> Any:
    """The value of a field of a limit; `none` or empty removes a budget.

    Raises `BadInput` naming the limit, the field and the fields there are.
    """
    if field not in LIMIT_FIELDS:
        raise BadInput(f"limit {name!r} has no field {field!r}; there are: {', '.join(LIMIT_FIELDS)}")
    return _read(Limit, f"{name}.{field}", field, text)


def with_allowance(stated: str, name: str, value: str) -> str:
    """The allowances of a limit with another amount of the one of this name (`usd/day`, as `queue limits
    --json` has it); a value of more than a number is the whole of it, `none` takes it away.

    Raises `BadInput`, naming those there are.
    """
    allowances = {allowance.name: allowance for allowance in allowances_in(stated)}
    if value.strip() == "none" and name in allowances:
        del allowances[name]
    elif any(letter.isalpha() for letter in value) and value.strip() != "none":
        changed = parse_allowance(value)
        allowances[changed.name] = changed
        if changed.name != name:
            raise BadInput(f"{value[:60]!r} is the allowance {changed.name}, not {name[:60]}")
    elif old := allowances.get(name):
        amount = meter_named(old.meter).amount(value.strip())
        burst = amount if old.burst == old.amount else old.burst
        allowances[name] = parse_allowance(str(replace(old, amount=amount, burst=burst)))
    else:
        known = ", ".join(allowances) or "none"
        raise BadInput(f"no allowance is called {name[:60]!r}; there are: {known}. Write a new one in full")
    return "; ".join(map(str, allowances.values()))


def parse_policy_field(kind: str, field: str, text: str) -> Any:
    """The value of a field of a retry policy; raises `BadInput`."""
    return _read(RetryPolicy, f"{kind}.{field}", field, text)


def _read(model: type[Model], label: str, name: str, text: str) -> Any:
    field: Any = model._meta.get_field(name)
    value = "" if text == "none" else text.strip()
    if not value and field.null:
        return None
    try:
        return field.clean(value, None)
    except ValidationError as error:
        raise BadInput(f"{label}={text[:60]}: {_cut(error.messages)}") from None


def _cut(messages: Iterable[str]) -> str:
    """Django quotes a value that is no number as it is."""
    return " ".join(message[:LONGEST_PROBLEM] for message in messages)


LONGEST_PROBLEM = 400


def validate(row: Model, values: Mapping[str, Any]) -> None:
    """Set these fields of a row; raises `BadInput` naming the row and each invalid field."""
    for name, value in values.items():
        setattr(row, name, value)
    try:
        row.full_clean()
        if isinstance(row, Limit) and SHORT_OR_LONG & values.keys():
            row.validate_said_once()
    except ValidationError as error:
        problems = [
            f"{row}.{field}: {_cut(messages)}" if field != "__all__" else f"{row}: {_cut(messages)}"
            for field, messages in error.message_dict.items()
        ]
        raise BadInput("; ".join(problems)) from None
