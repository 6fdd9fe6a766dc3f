"""Figures of limits and retry policies as people write them, and what is wrong with them in a sentence."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Model

from queuemgr.controls import FIGURES
from queuemgr.errors import BadInput
from queuemgr.models import Limit, RetryPolicy


def read_figure(name: str, figure: str, text: str) -> Any:
    """A figure of a limit; `none` or nothing takes a budget away.

    Raises `BadInput` naming the limit, the figure and what there is.
    """
    if figure not in FIGURES:
        raise BadInput(f"limit {name!r} has no figure {figure!r}; there are: {', '.join(FIGURES)}")
    return _read(Limit, f"{name}.{figure}", figure, text)


def read_policy_figure(kind: str, figure: str, text: str) -> Any:
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


def checked(row: Model) -> None:
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
