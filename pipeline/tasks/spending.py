"""What a step spends at a model: charged to the meters `tokens` and `usd` as the endpoint reports it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from decimal import Decimal

from django.db import Error as DatabaseError

from pipeline.config import pipeline_settings
from pipeline.model_prices import MICRO
from pipeline.steps.llm.usage import Usage
from queuemgr import LeaseLost, Work

logger = logging.getLogger(__name__)


class Spending:
    """Charges what its `usage` has counted and was not charged yet, from any thread. Sums are charged, not
    answers: of many parts of a millionth of a dollar each is counted, and one that the database did not
    accept is charged with the next."""

    def __init__(self, work: Work, model: str | None, limit: str) -> None:
        """`model`: None where none is asked, and nothing charged. `limit`: that of its endpoint."""
        self.usage = Usage()
        self._limit = limit
        self._work, self._is_metered = work, model is not None
        self._price = pipeline_settings().model_prices.get(model or "")
        self._tokens, self._micro_usd, self._said = 0, 0, False
        self._lock = threading.Lock()

    @property
    def micro_usd(self) -> int:
        """What the usage costs so far; 0 while no price is known."""
        return self._price.micro_usd(self.usage) if self._price else 0

    @property
    def priced_requests(self) -> int:
        """Requests whose cost is known."""
        return self.usage.known if self._price else 0

    def charge(self) -> None:
        """After each answer. What the database does not accept is left for later. A lease that is gone is
        noticed before the next request: this answer is paid for, and kept for the next attempt."""
        try:
            self._charge(nothing_too=False)
        except DatabaseError:
            logger.warning("what an answer cost could not be charged yet", exc_info=True)
        except LeaseLost as error:
            logger.warning("what an answer cost could not be charged: %s", type(error).__name__)

    def observe(self, headers: Mapping[str, str], sent: float) -> None:
        """Have the fleet know what the endpoint says is left. A lease that is gone is noticed before the next
        request, as for what an answer cost."""
        try:
            self._work.observe(headers, sent=sent, limit=self._limit)
        except LeaseLost as error:
            logger.warning("what an endpoint has left could not be reported: %s", type(error).__name__)

    def settle(self) -> None:
        """At the end of the step. If it is known of all its requests that they used nothing, that is said:
        else the step would be charged what was expected of it."""
        if not self._is_metered:
            return
        if self.usage.doubted:
            logger.warning(
                "%s: %d answers report more tokens than their requests can have used, which was charged",
                self._limit, self.usage.doubted,
            )  # fmt: skip
        try:
            self._charge(nothing_too=self.usage.known == self.usage.requests)
        except (DatabaseError, LeaseLost) as error:
            logger.warning("what a step cost could not be charged: %s", type(error).__name__)

    def _charge(self, *, nothing_too: bool) -> None:
        with self._lock:
            tokens, micro_usd = self.usage.prompt_tokens + self.usage.completion_tokens, self.micro_usd
            spent: dict[str, float | Decimal] = {"tokens": tokens - self._tokens}
            if self._price:
                spent["usd"] = Decimal(micro_usd - self._micro_usd) / MICRO
            if any(spent.values()) or (nothing_too and not self._said):
                self._work.spend(**spent)
                self._tokens, self._micro_usd, self._said = tokens, micro_usd, True
