"""Which of the values that processes state of one limit is in force."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from queuemgr.scheduling.statement_order import MOST_REMEMBERED, SETTLED, StatementOrder

NOW = datetime(2026, 11, 30, tzinfo=UTC)
UPGRADED = StatementOrder(("old", "new"), "new", NOW)
ROLLED_BACK = StatementOrder(("old", "new"), "old", NOW)


def test_a_value_that_nobody_stated_before_takes_effect_at_once() -> None:
    assert UPGRADED.takes_effect_at_start("newest")
    assert UPGRADED.put_in_force("newest", NOW, as_newest=False).digests == ("old", "new", "newest")


def test_an_older_value_does_not_take_effect_when_a_process_starts() -> None:
    assert not UPGRADED.takes_effect_at_start("old")


def test_an_older_value_comes_back_once_no_worker_has_stated_a_newer_one_for_a_while() -> None:
    assert UPGRADED.after_rollback({"old", "new"}, {"old", "new"}) is None
    assert UPGRADED.after_rollback({"old"}, {"old", "new"}) is None, (
        "a worker that stated it lived until lately"
    )
    assert UPGRADED.after_rollback({"old"}, {"old"}) == "old"


def test_what_only_gone_workers_stated_stays_while_none_states_anything() -> None:
    assert UPGRADED.after_rollback(set(), set()) is None


def test_of_several_older_values_the_newest_comes_back() -> None:
    order = StatementOrder(("oldest", "old", "new"), "new", NOW)
    assert order.after_rollback({"oldest", "old"}, {"oldest", "old"}) == "old"


def test_the_newer_value_is_in_force_again_as_soon_as_a_worker_states_it_again() -> None:
    assert ROLLED_BACK.takes_effect_at_start("new")
    assert ROLLED_BACK.after_rollback({"old", "new"}, {"old", "new"}) == "new"


def test_after_ten_minutes_without_a_worker_that_states_a_newer_one_a_value_is_the_newest() -> None:
    later = NOW + SETTLED
    assert not ROLLED_BACK.is_settled({"old"}, later - timedelta(seconds=1))
    assert not ROLLED_BACK.is_settled({"old", "new"}, later), "a worker states the newer one"
    assert not ROLLED_BACK.is_settled(set(), later), "no worker is there to tell"
    assert ROLLED_BACK.is_settled({"old"}, later)
    assert ROLLED_BACK.put_in_force("old", later, as_newest=True).digests == ("new", "old")


def test_only_the_last_values_are_remembered() -> None:
    order = StatementOrder(("0",), "0")
    for number in range(100):
        order = order.put_in_force(str(number), NOW, as_newest=False)
    assert len(order.digests) == MOST_REMEMBERED
    assert order.digests[-1] == order.in_force == "99"
