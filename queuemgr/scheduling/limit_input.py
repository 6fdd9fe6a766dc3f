"""Figures of limits and retry policies as people write them, and what is wrong with them in a sentence."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Model

from queuemgr.base.errors import BadInput
from queuemgr.models import Limit, RetryPolicy
from queuemgr.scheduling.limit_rows import LIMIT_FIELDS, new_limit


def parse_limit_field(name: str, figure: str, text: str) -> Any:
    """A figure of a limit; `none` or nothing takes a budget away.

    Raises `BadInput` naming the limit, the figure and what there is.
    """
    if figure not in LIMIT_FIELDS:
        raise BadInput(
            f"limit {name!r} has no figure {figure!r}; there are: {', '.join(LIMIT_FIELDS)}"
        )
    return _read(Limit, f"{name}.{figure}", figure, text)


def parse_policy_field(kind: str, figure: str, text: str) -> Any:
    """A figure of a retry policy; raises `BadInput`."""
    return _read(RetryPolicy, f"{kind}.{figure}", figure, text)


def _read(model: type[Model], where: str, figure: str, text: str) -> Any:
    field: Any = model._meta.get_field(figure)
    wanted = "" if text == "none" else text.strip()
    if not wanted and field.null:
        return None
    try:
        return field.clean(wanted, None)
    except ValidationError as error:
        raise BadInput(f"{where}={text}: {' '.join(error.messages)}") from None


def validate(row: Model) -> None:
    """Raise `BadInput` naming the row and each figure that cannot be."""
    try:
        row.full_clean()
    except ValidationError as error:
        problems = [
            f"{row}.{figure}: {' '.join(said)}"
            if figure != "__all__"
            else f"{row}: {' '.join(said)}"
            for figure, said in error.message_dict.items()
        ]
        raise BadInput("; ".join(problems)) from None


def limit_to_edit(name: str) -> Limit:
    """The row of a limit, or one to be made of a kind there is, or a pattern; not saved.

    Raises `BadInput` for any other name: a mistyped one must not become a limit nobody works under.
    """
    found: Limit | None = Limit.objects.filter(name=name).first()
    if found is not None:
        return found
    names = Limit.objects.values_list("name", flat=True)
    kinds = {row.partition(":")[0] for row in names if ":" in row}
    known_kind = ":" in name and name.partition(":")[0] in kinds - {"phase"}
    if not known_kind and not name.endswith("*"):
        raise BadInput(no_limit(name))
    return new_limit(name)


def no_limit(name: str) -> str:
    """That there is no such limit, and which there are."""
    return f"no limit is called {name!r}; there are: " + ", ".join(
        Limit.objects.values_list("name", flat=True)
    )
