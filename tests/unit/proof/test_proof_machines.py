"""The machines of the proof: clocks that are stepped, hosts with a network between them, and what a killed
run leaves behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from proof import hosts, leftovers, machine
from proof.application.misdeeds import MISDEEDS
from proof.application.rules import DONE_FIRST, RETURNED
from proof.faults.database import advisory_locks, chosen, taking
from proof.hosts import CUT, OPERATOR, ManyHosts, OneHost
from proof.plan import CAPPED
from proof.wall_clock import Step, WallClock
from proof.ways import FLAT, WAYS, way_of
from queuemgr.base import scheduler_lock
from tests.acceptance.fleet import STEP_QUEUES

needs_hosts = pytest.mark.skipif(not machine.may_have_hosts(), reason="network namespaces are not permitted")
DAY = 86_400


def test_a_stepped_clock_is_ahead_in_every_process_and_maps_back_to_real_time(tmp_path: Path) -> None:
    clock = WallClock(tmp_path)
    if not clock.can_step:
        pytest.skip("no C compiler")
    clock.step(2 * DAY)
    code = "import time, datetime; print(time.time(), datetime.datetime.now().timestamp())"
    environment = {**os.environ, **clock.environment}
    printed = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    for shown in map(float, printed.stdout.split()):
        assert abs(shown - time.time() - 2 * DAY) < 30
        assert abs(clock.real(shown) - time.time()) < 30


def test_times_before_and_after_each_step_are_told_apart(tmp_path: Path) -> None:
    clock = WallClock(tmp_path)
    clock.steps = [Step(100, DAY), Step(200, 2 * DAY)]
    assert [clock.real(shown) for shown in (99, 150 + DAY, 250 + 2 * DAY)] == [99, 150, 250]


@pytest.fixture
def two_hosts() -> Iterator[ManyHosts]:
    there = ManyHosts(["left", "right"])
    try:
        yield there
    finally:
        there.close()


def answers(there: ManyHosts, source: str, target: str) -> bool:
    """Whether a packet from one host reaches a socket on the other."""
    listener = (
        "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
        f"s.bind(('{there.address(target)}', 4711)); s.settimeout(1.5); print('ready', flush=True); s.recv(9)"
    )
    sender = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
        f"[s.sendto(b'hello', ('{there.address(target)}', 4711)) for _ in range(3)]"
    )
    command = [*there.server(target), sys.executable, "-c", listener]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as listening:
        assert listening.stdout
        listening.stdout.readline()
        subprocess.run([*there.server(source), sys.executable, "-c", sender], check=True)
        return listening.wait(10) == 0


@needs_hosts
def test_packets_pass_between_hosts_unless_the_way_is_cut_and_then_in_that_direction_only(
    two_hosts: ManyHosts,
) -> None:
    assert answers(two_hosts, "left", "right")
    two_hosts.path("left", "right", CUT)
    assert not answers(two_hosts, "left", "right")
    assert answers(two_hosts, "right", "left")
    two_hosts.path("left", "right", 0.0)
    assert answers(two_hosts, "left", "right")


@needs_hosts
def test_the_operator_reaches_a_host_and_a_delayed_packet_arrives_later(two_hosts: ManyHosts) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.bind((two_hosts.address(OPERATOR), 0))
        here.settimeout(10)
        two_hosts.path("left", OPERATOR, 0.0, 0.5)
        sent = time.monotonic()
        code = (
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
            f"s.sendto(b'hello', {here.getsockname()!r})"
        )
        subprocess.run([*two_hosts.server("left"), sys.executable, "-c", code], check=True)
        assert here.recv(9) == b"hello"
        assert time.monotonic() - sent >= 0.5


def test_one_host_has_loopback_and_no_network_to_disturb() -> None:
    one = OneHost(boxes=False)
    assert (one.address("database"), one.server("database"), one.worker("alpha")) == ("127.0.0.1", [], [])
    with pytest.raises(NotImplementedError):
        one.path("alpha", "database", CUT)


def ended_pid() -> int:
    """The pid of a process that is gone."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
        return ended.pid


def test_what_a_killed_run_left_is_removed_and_what_belongs_to_a_living_one_is_not() -> None:
    stale = Path(tempfile.mkdtemp(prefix=f"{hosts.PREFIX}-{ended_pid()}-"))
    own = leftovers.new_directory()
    environment = {**os.environ, "SLUICE_DATA_DIR": str(stale)}
    with subprocess.Popen(["sleep", "60"], env=environment) as left:
        try:
            removed = leftovers.remove_stale()
            assert stale.name in removed
            assert not stale.exists()
            assert not psutil.pid_exists(left.pid)
            assert own.exists()
        finally:
            left.kill()
            leftovers.remove(own)
    assert not own.exists()


def test_a_run_that_was_killed_and_not_waited_for_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as zombie:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        stale = Path(tempfile.mkdtemp(prefix=f"{hosts.PREFIX}-{zombie.pid}-"))
        assert stale.name in leftovers.remove_stale()


@needs_hosts
def test_namespaces_of_a_killed_run_are_removed() -> None:
    name = f"{hosts.PREFIX}-{ended_pid()}-alpha"
    subprocess.run(["ip", "netns", "add", name], check=True)
    assert name in leftovers.remove_stale()
    assert name not in hosts.namespaces()


def test_every_way_of_hostile_code_does_something_and_everything_it_can_do_is_expected() -> None:
    rules = {
        f"{rule} {what}"
        for rule in ("key", "cost", "weight", "resources", "needed")
        for what in {**RETURNED, **DONE_FIRST}
    }
    of_rules = set(WAYS["rules that fail"])
    assert of_rules <= rules
    assert set(FLAT) - of_rules == set(MISDEEDS)


@pytest.mark.parametrize("way", sorted(FLAT))
def test_a_way_is_found_again_in_the_key_of_its_execution(way: str) -> None:
    assert way_of(f"hostile/{way.replace(' ', '-')}.17") == way


def test_every_advisory_lock_of_the_queue_is_held_by_someone_else_in_turn() -> None:
    """Locks of one number and of two are spaces apart: the same numbers in the other form lock nothing."""
    kinds = advisory_locks([7, 8])
    assert {taking(chosen(kinds, seed)) for seed in range(4)} == {
        ("SELECT pg_advisory_lock(%s)", (scheduler_lock.SCHEDULER_LOCK,)),
        ("SELECT pg_advisory_lock(%s, %s)", (scheduler_lock.QUEUE_LOCKS, 7)),
        ("SELECT pg_advisory_lock(%s, %s)", (scheduler_lock.QUEUE_LOCKS, 8)),
    }
    assert chosen(advisory_locks([]), 5) == (scheduler_lock.SCHEDULER_LOCK,)


def test_no_kind_of_lock_of_the_queue_is_left_out() -> None:
    family = scheduler_lock.SCHEDULER_LOCK >> 8
    values = vars(scheduler_lock).values()
    stated = {value for value in values if type(value) is int and value >> 8 == family}
    assert {lock[0] for kind in advisory_locks([7]) for lock in kind} == stated


def test_the_queues_whose_locks_are_held_are_ones_that_work_is_enqueued_into() -> None:
    assert {*CAPPED} <= {*STEP_QUEUES.split(",")}
