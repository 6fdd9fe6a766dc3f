"""Which process a worker's row is of, and whether that process is known to be dead.

A pid alone does not say: it is given to other processes later, each container counts its own from 1, and
a restarted machine or container gives the same ones again. A process is told apart by the boot of its
machine, the PID namespace its pid is of, and when it started.
"""

from __future__ import annotations

import os
import socket
import sys
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import psutil


class ProcessIdentity(NamedTuple):
    """A process, told apart from every other one.

    `boot_id` and `pid_namespace` are empty and 0 where the system has none (it is not Linux); `started` is
    0 where it is unknown: the row is of an earlier release, or `/proc` shows another namespace's processes.
    """

    host: str
    boot_id: str
    pid_namespace: int
    pid: int
    started: int


class Verdict(Enum):
    """What is known of another process from here."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


def judge(other: ProcessIdentity, here: ProcessIdentity, runs_since: int, *, stale: bool) -> Verdict:
    """Whether `other` is dead, as a process that is `here` can tell.

    `runs_since` is the start of the process that has its pid here now (0: none has); `stale` says that its
    heartbeats have stopped. Only processes of the same boot and the same namespace can be looked at. A host
    of the same name and another boot is the same machine restarted, or another machine: its
    heartbeats decide.
    """
    if not other.started or not here.started:
        return Verdict.UNKNOWN
    same_boot = other.boot_id == here.boot_id if other.boot_id else other.host == here.host
    if not same_boot:
        return Verdict.DEAD if stale and other.host == here.host else Verdict.UNKNOWN
    if other.pid_namespace != here.pid_namespace:
        return Verdict.UNKNOWN
    return Verdict.ALIVE if runs_since == other.started else Verdict.DEAD


def this_process() -> ProcessIdentity:
    """The identity of the calling process."""
    host, pid = socket.gethostname(), os.getpid()
    if not sys.platform.startswith("linux"):
        return ProcessIdentity(host, "", 0, pid, started(pid))
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").stat().st_ino
        shown_as = int(Path("/proc/self").readlink().name)
    except (OSError, ValueError):
        return ProcessIdentity(host, "", 0, pid, 0)
    return ProcessIdentity(host, boot_id, namespace, pid, started(pid) if shown_as == pid else 0)


def started(pid: int) -> int:
    """When the process of this pid started, in the system's unit; 0 if there is none, or it has ended and
    was not reaped yet."""
    if sys.platform.startswith("linux"):
        return _started_by_proc(pid)
    try:
        process = psutil.Process(pid)
        return 0 if process.status() == psutil.STATUS_ZOMBIE else int(process.create_time())
    except psutil.Error:
        return 0


STATE, STARTTIME = 0, 19
"""Fields of `/proc/PID/stat` after the command's name, which may hold blanks and brackets (proc(5))."""


def _started_by_proc(pid: int) -> int:
    """In clock ticks since the boot: psutil's times move with the wall clock."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[STATE] in "ZX" else int(fields[STARTTIME])
