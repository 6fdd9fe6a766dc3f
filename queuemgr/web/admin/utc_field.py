"""Times typed in UTC, as their labels say, whatever the zone in which pages show moments."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils import timezone

if TYPE_CHECKING:
    from datetime import datetime


class UtcDateTimeField(forms.DateTimeField):
    def to_python(self, value: Any) -> datetime | None:
        with timezone.override(UTC):
            return super().to_python(value)

    def prepare_value(self, value: Any) -> Any:
        with timezone.override(UTC):
            return super().prepare_value(value)
