"""When to try again: waits that stay within what the table says, whatever the number of the try."""

from __future__ import annotations

import pytest

from queuemgr.flows import retry_policy
from queuemgr.flows.retry_policy import POLICIES, Policy, backoff, retry_delay

FOREVER = 10_000_000


@pytest.mark.parametrize("attempt", [1, 16, 64, 1_100, 1_000_000])
@pytest.mark.parametrize("base", [2, 5, 2.5, 3_600])
def test_no_number_of_attempts_makes_the_delay_overflow(base: float, attempt: int) -> None:
    """The 16th retry of a base of 5 once gave a date out of range, and the job was gone."""
    delay = retry_delay(Policy(FOREVER, base, ceiling=3_600, jitter=10), attempt)
    assert delay is not None
    assert 0 <= delay <= 3_610


@pytest.mark.parametrize("kind", [kind for kind, p in POLICIES.items() if p.max_attempts > 1])
@pytest.mark.parametrize("attempt", range(1, 6))
def test_every_delay_is_the_backoff_of_its_policy_plus_at_most_the_jitter(kind: str, attempt: int) -> None:
    """Jitter from zero made of an hour's wait anything down to none."""
    policy = POLICIES[kind]
    least = min(policy.base * 2 ** (attempt - 1), policy.ceiling)
    waits = [retry_delay(policy, attempt) for _ in range(200)]
    if attempt >= policy.max_attempts:
        assert set(waits) == {None}
        return
    assert least <= min(waits)
    assert max(waits) <= least + policy.jitter
    assert max(waits) - min(waits) > policy.jitter / 2, "spread, so that retries do not collide again"


def test_a_backoff_of_an_hour_is_an_hour() -> None:
    """A ceiling nobody set must not cut it short."""
    slow = Policy(9, base=3_600, ceiling=7_200, jitter=60)
    delays = [retry_delay(slow, attempt) for attempt in (1, 2, 3) for _ in range(300)]
    assert min(delays) >= 3_600
    assert max(delays) <= 7_260


def test_no_default_policy_has_a_ceiling_below_its_base() -> None:
    short = {kind for kind, policy in POLICIES.items() if policy.base > policy.ceiling}
    assert short == set()


def test_a_retry_after_is_never_shortened() -> None:
    """Jitter is only ever added, also where the backoff's ceiling is lower."""
    for retry_after in (5.0, 90.0, 3_600.0, 86_400.0):
        policy = POLICIES["rate_limited"]
        waits = [retry_delay(policy, 1, retry_after=retry_after) for _ in range(100)]
        assert min(waits) >= retry_after
        assert max(waits) <= retry_after + policy.jitter


def test_the_first_losses_are_retried_at_once_and_later_ones_within_a_lease() -> None:
    assert [retry_policy.loss_delay(lost, 90) for lost in range(1, retry_policy.MAX_LOSSES)] == [0.0, 0.0]
    assert all(0 <= retry_policy.loss_delay(retry_policy.MAX_LOSSES, 90) <= 90 for _ in range(100))


def test_backoff_doubles_up_to_its_ceiling() -> None:
    policy = Policy(9, base=5, ceiling=60)
    assert [backoff(policy, attempt) for attempt in range(1, 6)] == [5, 10, 20, 40, 60]
