"""How a retry policy is shown: as its resulting delays, the shortest and the longest of each."""

from __future__ import annotations

import pytest

from queuemgr.flows.retry_policy import Policy
from queuemgr.web.admin.policies import waits_of


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(1), "never retried"),
        (Policy(4, 5, 600, 5), "5-10 s, 10-15 s, 20-25 s"),
        (Policy(3, 2.5, 9), "2.5 s, 5 s"),
        (Policy(6, 10, 20, 1), "10-11 s, 20-21 s each of 4 times"),
        (Policy(12, 15, 3600, 0), "15 s, 30 s, 60 s, 120 s, 240 s, 480 s, and so on to 3600 s"),
        (Policy(5, 0, 0, 0), "0 s each of 4 times"),
    ],
)
def test_a_policy_is_shown_as_its_resulting_delays_in_the_admin(policy: Policy, expected: str) -> None:
    assert waits_of(policy) == expected
