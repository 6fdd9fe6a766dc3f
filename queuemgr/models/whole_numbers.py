"""Columns of whole numbers that hold the same on every database.

Django asks its database how much a column holds: SQLite says 64 bits, PostgreSQL 32. What is accepted must
not depend on that, or a number moves with its rows to a database that cannot store it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.core.validators import MaxValueValidator
from django.db import models

from queuemgr.base.column_sizes import MAX_INTEGER

if TYPE_CHECKING:
    WholeNumber = models.PositiveIntegerField  # as which a checker knows its values
else:

    class WholeNumber(models.PositiveIntegerField):
        """A `PositiveIntegerField`, in migrations too, of at most `MAX_INTEGER`."""

        @cached_property
        def validators(self) -> list[Any]:
            others = [each for each in super().validators if not isinstance(each, MaxValueValidator)]
            return [*others, MaxValueValidator(MAX_INTEGER)]

        def deconstruct(self) -> Any:
            name, _, arguments, keywords = super().deconstruct()
            return name, "django.db.models.PositiveIntegerField", arguments, keywords
