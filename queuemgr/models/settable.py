"""Fields of a row that people set, each declared once: as its column, in its model.

A column says its name, type, range, default and meaning, and `settable` what Django has no place for. Made
of these are the form of the admin, the options of the command, the schemas of the API, the values that the
audit log has and an undo restores, what code and settings may state, and the table of the documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from queuemgr.base.column_sizes import MAX_INTEGER

Column = TypeVar("Column", bound="models.Field[Any, Any]")


@dataclass(frozen=True)
class SettableField:
    """A column that people set. `unit`: what its number counts, or what its text is. `group`: the heading
    of the form under which it is. `permission`: who may set it. `is_listed`: shown in lists of rows, too.
    `decides`: decisions look at it."""

    column: models.Field[Any, Any]
    unit: str
    group: str
    permission: str
    is_listed: bool
    decides: bool

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def meaning(self) -> str:
        return str(self.column.help_text)

    @property
    def default(self) -> Any:
        return self.column.get_default()

    @property
    def is_number(self) -> bool:
        return isinstance(self.column, models.IntegerField)

    @property
    def is_long(self) -> bool:
        """Whether its text needs several lines."""
        return isinstance(self.column, models.TextField)

    @property
    def may_be_none(self) -> bool:
        return self.column.null

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest number."""
        checks = self.column.validators
        return (
            max(0, *(int(check.limit_value) for check in checks if isinstance(check, MinValueValidator))),
            min(
                MAX_INTEGER,
                *(int(check.limit_value) for check in checks if isinstance(check, MaxValueValidator)),
            ),
        )

    @property
    def longest(self) -> int | None:
        """Characters of its text."""
        return getattr(self.column, "max_length", None)


def settable(
    column: Column, *, unit: str, group: str, permission: str = "change_limit", is_listed: bool = False,
    decides: bool = True,
) -> Column:  # fmt: skip
    """Let people set this column."""
    setattr(column, _MARK, SettableField(column, unit, group, permission, is_listed, decides))
    return column


_MARK = "settable_field"


def settable_fields(model: type[models.Model]) -> dict[str, SettableField]:
    """Those of a model by name, in the order of its columns."""
    return {
        column.name: getattr(column, _MARK)
        for column in model._meta.concrete_fields
        if hasattr(column, _MARK)
    }


def grouped(fields: Mapping[str, SettableField]) -> dict[str, tuple[str, ...]]:
    """Their names by the headings under which a form has them."""
    headings = dict.fromkeys(field.group for field in fields.values())
    return {
        heading: tuple(name for name, field in fields.items() if field.group == heading)
        for heading in headings
    }
