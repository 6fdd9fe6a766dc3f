"""What this machine permits, found out by trying."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from proof.hosts import BOX, PREFIX


def may_box() -> bool:
    """Whether a process may have a PID namespace of its own."""
    return _works([*BOX, "--uts", "true"])


def may_have_hosts() -> bool:
    """Whether there may be network namespaces with devices of ours."""
    name = f"{PREFIX}-{os.getpid()}-try"
    if not _works(["ip", "netns", "add", name]):
        return False
    try:
        return may_box() and _works(["ip", "-n", name, "tuntap", "add", "dev", "try", "mode", "tun"])
    finally:
        _works(["ip", "netns", "del", name])


def may_mount() -> bool:
    """Whether a small file system may be mounted."""
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}-{os.getpid()}-") as folder:
        mounted = mount(Path(folder), megabytes=1)
        return mounted and _works(["umount", folder])


def mount(folder: Path, megabytes: int) -> bool:
    """Mount a file system of this size in memory; returns whether that is permitted."""
    options = f"size={megabytes}m,mode=755"
    return _works(["mount", "-t", "tmpfs", "-o", options, "sluice-proof", str(folder)])


def may_step_clocks() -> bool:
    """Whether there is a compiler for the clock's library."""
    return compiler() is not None


def pooler() -> str | None:
    """PgBouncer's program; Debian puts it where not every path looks."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


def compiler() -> str | None:
    """The C compiler."""
    return shutil.which("gcc") or shutil.which("cc")


def _works(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False
