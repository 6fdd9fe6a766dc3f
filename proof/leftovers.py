"""What a run leaves behind that was itself killed: found by the pid of its owner, and removed at the next
start."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil

from proof.hosts import PREFIX, delete_namespaces, namespaces
from tests.acceptance.processes import using


def new_directory() -> Path:
    """A directory of this run's own, with the pid of this process in its name."""
    directory = Path(tempfile.mkdtemp(prefix=f"{PREFIX}-{os.getpid()}-"))
    directory.chmod(0o755)
    return directory


def remove_stale() -> list[str]:
    """Remove the namespaces, processes, mounts and directories of runs whose process is gone; returns their
    names."""
    stale = [name for name in namespaces() if _orphaned(name)]
    for name in stale:
        _kill_in(name)
    delete_namespaces(stale)
    folders = [folder for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}-*") if _orphaned(folder.name)]
    for folder in folders:
        remove(folder)
    return [*stale, *(folder.name for folder in folders)]


def remove(directory: Path) -> list[str]:
    """Kill what still runs for this directory, unmount what is in it, and delete it; returns what ran."""
    left = [process for process in using(directory) if process.pid != os.getpid()]
    named = [f"{process.pid} {process.name()}" for process in left]
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, timeout=5)
    for mounted in mounts_in(directory):
        subprocess.run(["umount", "--lazy", mounted], check=False, capture_output=True)
    shutil.rmtree(directory, ignore_errors=True)
    return named


def mounts_in(directory: Path) -> list[str]:
    """The file systems mounted in this directory."""
    lines = Path("/proc/mounts").read_text().splitlines()
    return [line.split()[1] for line in lines if line.split()[1].startswith(f"{directory}/")]


def _orphaned(name: str) -> bool:
    owner = re.match(rf"{PREFIX}-(\d+)-", name)
    return owner is not None and not _lives(int(owner[1]))


def _lives(pid: int) -> bool:
    """Whether this process runs; one that ended and that nobody has waited for does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _kill_in(namespace: str) -> None:
    listed = subprocess.run(["ip", "netns", "pids", namespace], check=False, capture_output=True, text=True)
    for pid in listed.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
