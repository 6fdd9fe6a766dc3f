"""Its task: a request under two allowances."""

from __future__ import annotations

from bench.model import endpoint
from queuemgr import StepFailed, current_work, queued

ALLOWANCES = "60 requests/minute; 30,000 tokens/minute"


@queued(
    limits={"model": {"allowances": ALLOWANCES}},
    cost=1,
    uses=lambda words: {"tokens": endpoint.charged(words)},
)
def ask(words: int) -> None:
    work = current_work()
    work.record_requests()
    wait = endpoint.ask(words)
    if wait is not None:
        work.spend(tokens=0)
        raise StepFailed("rate_limited", "429", retry_after=wait)
    work.spend(tokens=endpoint.charged(words))
