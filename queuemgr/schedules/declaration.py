"""A schedule as code states it. Pure: what becomes of it in the database is in `declared_rows`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from queuemgr.base.errors import BadInput, ConfigurationError
from queuemgr.base.safe_text import excerpt
from queuemgr.flows import payload_validation
from queuemgr.flows.flow import PRIORITIES
from queuemgr.schedules import misfires, overlap
from queuemgr.schedules.timing import Timing

Payload = Mapping[str, Any]
LONGEST_NAME = 200
LONGEST_JITTER = 86_400


@dataclass(frozen=True)
class Schedule:
    """`flow` is enqueued at the times of `timing` (`cron(…)`, `every(…)`, `once(…)`) with `payload`.

    `misfire` says which due times are run that were missed while nothing ran schedules: `"skip"`,
    `"run once"` or `"run all"`, at most the latest `misfire_limit`. `overlap` says what becomes of a run that
    is due while the one before has not ended: `"allow"`, `"skip"` or `"queue one"`. A run starts up to
    `jitter` seconds after its due time. Raises `ConfigurationError` for what cannot work.
    """

    name: str
    flow: str
    timing: Timing
    payload: Payload | Callable[[], Payload] = field(default_factory=dict)
    priority: str = "normal"
    misfire: str = misfires.RUN_ONCE
    misfire_limit: int = 100
    overlap: str = overlap.SKIP
    jitter: int = 0

    def __post_init__(self) -> None:
        check_name(self.name)
        if not isinstance(self.timing, Timing):
            raise ConfigurationError(
                f"schedule {self.name}: {excerpt(self.timing)} is no timing; write cron('…'), "
                "every(minutes=5) or once(at)"
            )
        for what, value, known in (
            ("priority", self.priority, tuple(PRIORITIES)),
            ("misfire", self.misfire, misfires.POLICIES),
            ("overlap", self.overlap, overlap.POLICIES),
        ):
            if value not in known:
                raise ConfigurationError(
                    f"schedule {self.name}: {what}={excerpt(value)} is not one of {', '.join(known)}"
                )
        _whole(self.name, "misfire_limit", self.misfire_limit, 1, misfires.MOST_RUN)
        _whole(self.name, "jitter", self.jitter, 0, LONGEST_JITTER)
        if not callable(self.payload):
            self._checked(self.payload)

    def fields(self) -> dict[str, Any]:
        """Its fields as a row has them, but its name."""
        payload = self.payload() if callable(self.payload) else self.payload
        return {
            "flow": self.flow, "timing": str(self.timing), "payload": self._checked(payload),
            "priority": PRIORITIES[self.priority], "misfire": self.misfire,
            "misfire_limit": self.misfire_limit, "overlap": self.overlap, "jitter": self.jitter,
        }  # fmt: skip

    def _checked(self, payload: Payload) -> dict[str, Any]:
        try:
            return payload_validation.validate(payload)
        except BadInput as error:
            raise ConfigurationError(f"schedule {self.name}: {error}") from None


def check_name(name: object) -> None:
    """Raise `ConfigurationError` for a name that no row can hold."""
    if not (isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable()):
        raise ConfigurationError(
            f"schedule {excerpt(name)}: a name has 1 to {LONGEST_NAME} printable characters"
        )


def _whole(schedule: str, what: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigurationError(
            f"schedule {schedule}: {what}={excerpt(value)} is no whole number from {least} to {most}"
        )


_registered: dict[str, Schedule] = {}


def register_schedule(schedule: Schedule) -> Schedule:
    """Have workers of this code state the schedule; the same name again replaces it.

    Raises `ConfigurationError` where another flow has a schedule of that name.
    """
    known = _registered.get(schedule.name)
    if known is not None and known.flow != schedule.flow:
        raise ConfigurationError(
            f"schedule {schedule.name!r} is declared of flow {known.flow} already: give it another name"
        )
    _registered[schedule.name] = schedule
    return schedule


def registered() -> tuple[Schedule, ...]:
    """Every schedule that this process states."""
    return tuple(_registered.values())


def forget(name: str) -> None:
    """Have this process state it no more."""
    _registered.pop(name, None)
