"""The lanes of a worker: how much of each kind of work it does at once, and how much may wait."""

from __future__ import annotations

from dataclasses import dataclass

from queuemgr.errors import ConfigurationError


@dataclass(frozen=True)
class Lane:
    """Room for one kind of work: `concurrency` at once, `max_pending` taken and not finished.

    Raises `ConfigurationError` for a number below 1.
    """

    name: str
    concurrency: int
    max_pending: int

    def __post_init__(self) -> None:
        for field in ("concurrency", "max_pending"):
            if getattr(self, field) < 1:
                raise ConfigurationError(
                    f"lane {self.name}: {field} is {getattr(self, field)}; it must be at least 1"
                )
