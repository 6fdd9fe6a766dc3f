"""What a start draws on a rolling allowance. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from queuemgr.base.allowance import Allowance
from queuemgr.base.meters import STARTS
from queuemgr.base.rate import COMMIT_TIME


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a start draws on a rolling allowance: a `queuemgr.base.rate.Debit`."""

    allowance: Allowance
    amount: int

    @property
    def interval(self) -> float:
        return self.amount * self.allowance.interval

    @property
    def pace(self) -> float:
        """Seconds of the smallest amount."""
        return self.allowance.interval

    @property
    def may_be_given_back(self) -> bool:
        """A start was one, whatever became of it."""
        return self.allowance.meter != STARTS

    @property
    def tolerance(self) -> float:
        return (self.allowance.burst - self.amount) * self.allowance.interval

    @property
    def farthest(self) -> float:
        return self.allowance.farthest

    @property
    def commit_time(self) -> float:
        """Seconds by which a start that conforms already is booked later than now: were it booked now, the
        next one would follow its true beginning too soon. Bursts may come closer together anyway."""
        return min(COMMIT_TIME, self.interval / 10) if self.allowance.burst == self.amount else 0.0
