"""The schedule by which the papers application reads its inbox and enqueues what was held."""

from __future__ import annotations

import sys

import pytest

from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import STEP_QUEUES


@pytest.mark.slow_proof  # what the schedule does has tests without processes
def test_the_inbox_is_read_by_a_schedule_without_beat_once_for_each_due_time_and_no_drain_waits_for_it(
    make_fleet: MakeFleet,
) -> None:
    fleet = make_fleet(seed_interval=2)
    fleet.tolerate("")  # the paper is none
    fleet.start_from_scratch(  # what is declared depends on the settings
        "worker", sys.executable, "-W", "ignore", "-m", "celery", "-A", "project", "worker", "-P", "threads",
        "-c", "2", "-Q", f"{STEP_QUEUES},housekeeping", "-l", "INFO", "--without-mingle",
    )  # fmt: skip
    inbox = fleet.directory / "inbox"
    inbox.mkdir(exist_ok=True)
    (inbox / "paper.pdf").write_bytes(b"%PDF-1.4 of a kind")
    fleet.wait_until("the paper is enqueued", lambda: fleet.one(PAPERS) == 1)
    fleet.wait_until("several due times have passed", lambda: fleet.one(SEEDED) > 2)
    assert fleet.one(TWICE) == 0
    shown = fleet.queue("schedule", "show", "papers.seed")
    assert "every 2s from start" in shown
    fleet.queue("schedule", "pause", "papers.seed", "--reason", "enough")
    fleet.command("run", "--drain", code=2)
    assert fleet.one(PAPERS) == 1


PAPERS = "SELECT COUNT(*) FROM queuemgr_execution WHERE flow = 'papers'"
SEEDED = "SELECT COUNT(*) FROM queuemgr_execution WHERE flow = 'papers.seed' AND state = 'done'"
TWICE = "SELECT COUNT(*) - COUNT(DISTINCT due_at) FROM queuemgr_scheduledrun WHERE outcome = 'enqueued'"
