"""Whether another worker of one's name is dead: told by boot, PID namespace and start, never by its pid."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from itertools import product

import pytest

from queuemgr.worker import process_identity
from queuemgr.worker.namesakes import Standing, standing
from queuemgr.worker.process_identity import ProcessIdentity, Verdict, judge

HERE = ProcessIdentity("host", "boot-1", 4026531836, 4711, started=1000)
ALIVE, DEAD, UNKNOWN = Verdict.ALIVE, Verdict.DEAD, Verdict.UNKNOWN


@dataclass(frozen=True)
class Case:
    """`runs_since`: the start of what has the other's pid here now; the other one started at 500."""

    name: str
    expected: Verdict
    boot: str = "boot-1"
    namespace: int = HERE.pid_namespace
    host: str = "host"
    runs_since: int = 0
    started: int = 500
    stale: bool = False


CASES = (
    Case("its process runs", ALIVE, runs_since=500),
    Case("its process runs and is frozen", ALIVE, runs_since=500, stale=True),
    Case("no process has its pid", DEAD),
    Case("its pid was given to another process", DEAD, runs_since=900),
    Case("its pid is our own, in a container started again", DEAD, runs_since=HERE.started),
    Case("the host was renamed since", ALIVE, host="renamed", runs_since=500),
    Case("it is in another container, silent", UNKNOWN, namespace=7, stale=True),
    Case("it is in another container that has our pids", UNKNOWN, namespace=7, runs_since=500),
    Case("the machine restarted a moment ago", UNKNOWN, boot="boot-0"),
    Case("the machine restarted long ago", DEAD, boot="boot-0", stale=True),
    Case("another machine has our pids", UNKNOWN, boot="boot-0", runs_since=500),
    Case("a machine of another name, silent", UNKNOWN, boot="boot-0", host="other", stale=True),
    Case("its row does not say when it started", UNKNOWN, started=0, stale=True),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_process_is_dead_only_where_that_can_be_known(case: Case) -> None:
    other = ProcessIdentity(case.host, case.boot, case.namespace, 12, case.started)
    assert judge(other, HERE, case.runs_since, stale=case.stale) is case.expected


def test_what_runs_here_is_looked_up_by_pid_for_processes_of_this_namespace_only() -> None:
    """In every other one that pid is a stranger's: whatever it does says nothing."""
    for boot, namespace, stale in product(("boot-0", "boot-1"), (7, HERE.pid_namespace), (False, True)):
        other = ProcessIdentity("host", boot, namespace, 12, 500)
        verdicts = {judge(other, HERE, since, stale=stale) for since in (0, 500, 1000)}
        same_namespace = (boot, namespace) == ("boot-1", HERE.pid_namespace)
        assert len(verdicts) == (2 if same_namespace else 1)


@pytest.mark.parametrize("runs_since", [0, 500])
def test_without_boot_ids_the_host_is_told_by_its_name(runs_since: int) -> None:
    here = HERE._replace(boot_id="", pid_namespace=0)
    other = here._replace(pid=12, started=500)
    assert judge(other, here, runs_since, stale=False) is (ALIVE if runs_since else DEAD)
    assert judge(other._replace(host="other"), here, runs_since, stale=True) is UNKNOWN


def test_a_process_that_cannot_see_its_own_start_judges_nobody() -> None:
    """`/proc` is that of another namespace, as after `unshare --pid` alone."""
    other = HERE._replace(pid=12, started=500)
    assert judge(other, HERE._replace(started=0), 0, stale=True) is UNKNOWN


@pytest.mark.parametrize("verdict", Verdict)
@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("moved", [False, True])
def test_a_worker_is_refused_beside_one_that_is_alive_and_by_no_other(
    verdict: Verdict, live: bool, moved: bool
) -> None:
    found = standing(verdict, live=live, moved=moved)
    assert (found is Standing.ENDS) == (verdict is DEAD)
    assert (found is Standing.REFUSES) == (verdict is not DEAD and live and (moved or verdict is ALIVE))
    assert (found is Standing.WATCHED) == (verdict is UNKNOWN and live and not moved)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_this_process_knows_its_start_and_tells_a_dead_one_before_it_is_reaped() -> None:
    me = process_identity.this_process()
    assert me.boot_id
    assert me.pid_namespace
    assert process_identity.started(os.getpid()) == me.started > 0
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert process_identity.started(child) == 0, "ended, and still in the table of processes"
    os.waitpid(child, 0)
    assert process_identity.started(child) == 0
