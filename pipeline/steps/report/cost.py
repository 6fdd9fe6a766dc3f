"""What a paper cost at models, in words. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from queuemgr import Meter

DOLLARS = Meter("usd", scale=1_000_000)


@dataclass(frozen=True)
class Cost:
    """Millionths of a dollar for those of its requests whose cost is known, and whether tokens were
    reported for any."""

    micro_usd: int = 0
    requests: int = 0
    priced_requests: int = 0
    has_tokens: bool = False

    @property
    def usd(self) -> str | None:
        """Dollars as a decimal number; None where the cost of no request is known."""
        known = self.priced_requests or not self.requests
        return DOLLARS.text(self.micro_usd).replace(",", "") if known else None

    def __str__(self) -> str:
        """`$0.0153`, or why that is not known; nothing without requests."""
        if not self.requests:
            return ""
        if not self.priced_requests:
            return "no price known" if self.has_tokens else "not known: the endpoint reported no tokens"
        dollars = f"${DOLLARS.text(self.micro_usd)}"
        unknown = self.requests - self.priced_requests
        if unknown <= 0:
            return dollars
        return f"{dollars}, without {unknown} of {self.requests} requests, of which no cost is known"
