"""The column of the allowances of a limit: in normal form, or a `ValidationError` with what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import models

from queuemgr.base.errors import BadInput
from queuemgr.base.stated_allowances import in_normal_form

if TYPE_CHECKING:
    AllowancesField = models.TextField  # as which a checker knows its values
else:

    class AllowancesField(models.TextField):
        """A `TextField`, in migrations too."""

        def clean(self, value: Any, model_instance: models.Model | None) -> str:
            try:
                return super().clean(in_normal_form(str(value or "")), model_instance)
            except BadInput as error:
                raise ValidationError(str(error)) from None

        def deconstruct(self) -> Any:
            name, _, arguments, keywords = super().deconstruct()
            keywords.pop("max_length", None)  # bounds what is written, not the column
            return name, "django.db.models.TextField", arguments, keywords
