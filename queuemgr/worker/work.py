"""What a step is called with: its lease, the signal that aborts it, and what it may say while it runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from asgiref.sync import sync_to_async

from queuemgr.base import meters
from queuemgr.base.db_connection import database
from queuemgr.base.errors import LeaseLost, StepFailed
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.lifecycle import attempts, leases
from queuemgr.lifecycle.attempts import AttemptsSoFar
from queuemgr.lifecycle.leases import Grant
from queuemgr.models import Lease
from queuemgr.steptools.rate_limit_headers import Remaining, ResponseLimits, response_limits
from queuemgr.worker import usage_commits
from queuemgr.worker.observed_limits import told_fleet
from queuemgr.worker.step_usage import StepUsage
from queuemgr.worker.usage_commits import Used


@dataclass(frozen=True)
class Work:
    """What a step is called with: the grant of its lease, and the signal that aborts it."""

    grant: Grant
    signal: AbortSignal
    usage: StepUsage = field(default_factory=StepUsage, repr=False, compare=False, kw_only=True)
    began: float = field(default_factory=time.monotonic, repr=False, compare=False, kw_only=True)

    @property
    def key(self) -> str:
        return self.grant.key

    @staticmethod
    def database() -> AbstractContextManager[None]:
        """`with work.database():` around what a step reads from the database before it continues: the
        connection is closed at the end of the block, and none is held while the step works or waits."""
        return database()

    @property
    def inputs(self) -> dict[str, Any]:
        """The payload, and over it the context that earlier steps returned."""
        return {**self.grant.payload, **self.grant.context}

    def attempts_so_far(self) -> AttemptsSoFar:
        """The earlier attempts of this step that count against its retry policy."""
        with database():
            return attempts.so_far(self.grant)

    async def aattempts_so_far(self) -> AttemptsSoFar:
        """As `attempts_so_far`, for asynchronous steps."""
        return await sync_to_async(self.attempts_so_far)()

    def is_last_attempt(self, kind: str, failures: int) -> bool:
        """Whether a failure of this kind, after `failures` earlier ones, will not be retried."""
        with database():
            return attempts.is_last(self.grant, kind, failures)

    async def ais_last_attempt(self, kind: str, failures: int) -> bool:
        """As `is_last_attempt`, for asynchronous steps."""
        return await sync_to_async(self.is_last_attempt)(kind, failures)

    def record_requests(self, requests: int = 1) -> None:
        """Record, before they are sent, that `requests` of the reserved requests are about to be sent.

        They are charged to the budgets even if the worker dies; the rest of the reservation is
        refunded. Raises `LeaseLost` when the lease is gone, and `StepFailed` of kind `over_reserved`
        when more would be sent than were reserved.
        """
        if usage_commits.recorded(Used(self.grant.lease_id, requests), self.signal):
            return
        with database():
            if leases.record_requests(self.grant.lease_id, requests):
                return
            self._raise_if_gone()
        message = f"sending {requests} more requests would exceed what the step reserved (its cost)"
        raise StepFailed("over_reserved", message)

    async def arecord_requests(self, requests: int = 1) -> None:
        """As `record_requests`, for asynchronous steps."""
        if not await usage_commits.arecorded(Used(self.grant.lease_id, requests)):
            await sync_to_async(self.record_requests)(requests)

    def spend(self, **amounts: float | Decimal) -> None:
        """Record what the step uses of meters, in their units: `work.spend(tokens=812, usd=0.004)`.

        Call it before a request for what is known then, and after it for what the answer tells; amounts add
        up. They are charged even if the worker dies; what was reserved beyond them is given back at the end,
        all of it for an amount of 0.
        Raises `BadInput` for an unknown meter or no amount, `LeaseLost` when the lease is gone, and
        `StepFailed` of kind `over_reserved` where requests, or another strict meter, would exceed what the
        step reserved.
        """
        spent = meters.stored(amounts)
        if requests := spent.pop(meters.REQUESTS, 0):
            self.record_requests(requests)
        if spent:
            self.record_usage(spent)

    async def aspend(self, **amounts: float | Decimal) -> None:
        """As `spend`, for asynchronous steps."""
        spent = meters.stored(amounts)
        if requests := spent.pop(meters.REQUESTS, 0):
            await self.arecord_requests(requests)
        if spent and not (self._is_shared(spent) and await usage_commits.arecorded(self._used(spent))):
            await sync_to_async(self.record_usage)(spent)

    def record_usage(self, spent: meters.Amounts) -> None:
        """As `spend`, in the smallest parts of meters other than requests."""
        if self._is_shared(spent) and usage_commits.recorded(self._used(spent), self.signal):
            return
        with self.usage.adding(spent) as total, database():
            self._raise_if_over_reserved(spent, total)
            if not leases.record_usage(self.grant.lease_id, meters.as_text(total, zeros=True)):
                self._raise_if_gone()

    def _used(self, spent: meters.Amounts) -> Used:
        return Used(self.grant.lease_id, amounts=spent, usage=self.usage)

    @staticmethod
    def _is_shared(spent: meters.Amounts) -> bool:
        """Whether it may be recorded together with others: what was reserved need not be read before."""
        return not any(meters.meter_named(name).strict for name in spent)

    def _raise_if_over_reserved(self, spent: meters.Amounts, total: meters.Amounts) -> None:
        strict = [name for name in spent if meters.meter_named(name).strict]
        if not strict:
            return
        reserved = leases.reserved_uses(self.grant.lease_id)
        if reserved is None:
            raise self._is_gone()
        for name in strict:
            if total[name] > reserved.get(name, 0):
                text = meters.meter_named(name).text
                held = text(reserved.get(name, 0))
                message = (
                    f"{text(total[name])} {name} would exceed the {held} that the step reserved (its uses)"
                )
                raise StepFailed("over_reserved", message)

    def observe(self, headers: Any, *, sent: float | None = None, limit: str = "") -> ResponseLimits:
        """Have the fleet know what a service's response says is left: `work.observe(response.headers)`. Until
        its reset nothing starts that is expected to use more; it never loosens what people allow.

        Meant are those of the step's limits that have an allowance of the meter, else all its keys of
        services; or `limit`. `sent`: when the request was, by `time.monotonic()`; else when the step began.
        """
        said = response_limits(headers)
        if said.by_meter:
            self.tell(said.by_meter, self.began if sent is None else sent, limit)
        return said

    async def aobserve(self, headers: Any, *, sent: float | None = None, limit: str = "") -> ResponseLimits:
        """As `observe`, for asynchronous steps."""
        return await sync_to_async(self.observe)(headers, sent=sent, limit=limit)

    def tell(self, said: Mapping[str, Remaining], sent: float, limit: str) -> None:
        """What `observe` does with what was read."""
        with database():
            if not told_fleet(self.grant.lease_id, said, sent, limit, self.usage):
                self._raise_if_gone()

    def raise_if_lost(self) -> None:
        """Raise `Aborted` when the step is aborted, `LeaseLost` when its lease is gone.

        Call it before a side effect that cannot be part of the result's transaction, such as moving
        a file to its final path.
        """
        self.signal.raise_if_aborted()
        with database():
            self._raise_if_gone()

    async def araise_if_lost(self) -> None:
        """As `raise_if_lost`, for asynchronous steps."""
        await sync_to_async(self.raise_if_lost)()

    def _raise_if_gone(self) -> None:
        if not Lease.objects.filter(pk=self.grant.lease_id).exists():
            raise self._is_gone()

    def _is_gone(self) -> LeaseLost:
        return LeaseLost(f"lease {self.grant.lease_id} ended while its step ran")
