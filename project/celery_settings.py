"""Celery's settings: those of Django's whose names begin with `CELERY_`, and no others.

Celery shows its whole configuration to whoever asks a worker for it, so it is given none but its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings

PREFIX = "CELERY_"


class CelerySettings(Mapping[str, Any]):
    """Named as Celery names them: `broker_url` is Django's setting `CELERY_BROKER_URL`."""

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(settings, PREFIX + name.upper())
        except AttributeError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(PREFIX).lower() for name in dir(settings) if name.startswith(PREFIX))

    def __len__(self) -> int:
        return sum(1 for _ in self)


celery_settings = CelerySettings()
