"""The processors and memory this process may use, limits of a container included.

`os.cpu_count` and psutil ignore control groups: in a container with one processor and 2 GiB they
report the whole host.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path("/sys/fs/cgroup")
SELF = Path("/proc/self/cgroup")


@dataclass(frozen=True)
class Machine:
    """Processors (at least 1) and bytes of memory a process may use."""

    cpus: int
    memory_bytes: int


def this_machine() -> Machine:
    """The minimum of what the hardware, the affinity mask and the control groups allow."""
    groups = list(_groups(SELF, ROOT))
    # macOS has no affinity mask.
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cpus = [own, *filter(None, (_processors(group) for group in groups))]
    memory = [psutil.virtual_memory().total, *filter(None, (_memory(group) for group in groups))]
    return Machine(min(cpus), min(memory))


def _groups(listing: Path, root: Path) -> Iterator[Path]:
    """Directories of this process's control groups and of all their parents.

    Lines of `listing` are `number:controllers:path` (version 1) or `0::path` (version 2). Inside a
    container the path may be the host's and not exist; then the root still applies.
    """
    lines: list[str] = []
    with suppress(OSError):
        lines = listing.read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        top = root / controllers if controllers else root
        inner = top / path.lstrip("/")
        yield from (group for group in (inner, *inner.parents) if group.is_relative_to(top))


def _processors(group: Path) -> int | None:
    """The group's processor quota, rounded up; None without one.

    Version 2 has `cpu.max` (`max 100000`, `150000 100000`), version 1 two files in microseconds.
    """
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text()
            period = (group / "cpu.cfs_period_us").read_text()
        share = int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
    return math.ceil(share) if share > 0 else None


def _memory(group: Path) -> int | None:
    """The group's memory limit in bytes, None without one."""
    for name in ("memory.max", "memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            return int((group / name).read_text())
    return None
