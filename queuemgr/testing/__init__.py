"""For the tests of an application: run what is due, see what was enqueued, call a step, move the clock.

    def test_a_welcome_is_sent(db):
        register("ann@example.org")
        assert_enqueued(send_welcome, to="ann@example.org")
        run_due()
        assert mail.outbox

It works in `TestCase`, whose transaction is rolled back, in `TransactionTestCase`, and with pytest's `db`. No
worker and no broker takes part. With `pytest_plugins = ["queuemgr.testing.fixtures"]` they are fixtures, too.
"""

from queuemgr.tasks.called_work import CalledWork, call_step, called_work
from queuemgr.testing.assertions import assert_enqueued, assert_not_enqueued, enqueued
from queuemgr.testing.clock import Clock, clock
from queuemgr.testing.run import Ran, run_due

__all__ = [
    "CalledWork", "Clock", "Ran", "assert_enqueued", "assert_not_enqueued", "call_step", "called_work",
    "clock", "enqueued", "run_due",
]  # fmt: skip
