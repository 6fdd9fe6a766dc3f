"""Confining a process: after this it reads a few files, and reaches no other process and no network.

In this order, each irrevocably: no program it starts gains rights, it has no capabilities but those to read
files of others, it opens only what it must read (Landlock), and the kernel takes no other system call from it
than a parser needs (seccomp).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence

from pipeline.steps.confinement import landlock, seccomp
from pipeline.steps.confinement.readable import readable

PR_SET_NO_NEW_PRIVS = 38

CAPABILITIES_VERSION = 0x20080522
READ_FILES = 1 << 1 | 1 << 2
"""The capabilities of root to read files of other users: a storage may be mounted with another owner."""


NOT_LINUX = "not Linux"


def confine(files: Sequence[str]) -> list[str]:
    """Both of the below. Returns what the system lacks for it, as `Landlock (reason)`; empty if nothing."""
    reasons = {"Landlock": confine_to_files(files), "seccomp": confine_to_calls(threads=True)}
    return [f"{name} ({reason})" for name, reason in reasons.items() if reason]


def confine_to_files(files: Sequence[str]) -> str:
    """Let this process, which must have one thread yet, only read `files` and libraries, and give up the
    rights of root; returns why not, or ""."""
    if sys.platform != "linux":
        return NOT_LINUX
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    drop_capabilities(libc)
    return landlock.restrict(libc, [*readable(), *files])


def confine_to_program(executed: Sequence[str], files: Sequence[str]) -> list[str]:
    """Let this process, which must lead its process group and have one thread, become the program that is
    `executed` by these files, and no other, under both of the above. Returns what the system lacks."""
    if sys.platform != "linux":
        return [NOT_LINUX]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    drop_capabilities(libc)
    reasons = {
        "Landlock": landlock.restrict(libc, [*readable(), *files], executed),
        "seccomp": seccomp.install(libc, threads=False, executes=True),
    }
    return [f"{name} ({reason})" for name, reason in reasons.items() if reason]


def confine_to_calls(*, threads: bool) -> str:
    """Let this process, which must lead its process group, make no system call but what a parser needs, in
    all its threads; `threads`: it may start more. Returns why not, or ""."""
    if sys.platform != "linux":
        return NOT_LINUX
    return seccomp.install(ctypes.CDLL(None, use_errno=True), threads=threads)


def drop_capabilities(libc: ctypes.CDLL) -> None:
    """Give up what root may do beyond reading files; whoever is not root has nothing to give up."""
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION, 0)
    held = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then their upper halves
    if libc.capget(header, held) == 0:
        kept = held[1] & READ_FILES
        libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0))
