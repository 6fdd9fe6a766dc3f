"""The system calls a parser needs: numbers on x86-64 and on 64-bit ARM, and what is asked of arguments.

A list of what is allowed, not of what is refused, so that what a later kernel adds is refused too. A call
that is not listed fails with `ENOSYS`, for which the C library has an older one to fall back upon.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import NamedTuple


class NoneOf(NamedTuple):
    """Allowed if the argument has none of these bits."""

    argument: int
    bits: int


class OneOf(NamedTuple):
    """Allowed if the argument is one of these values of 32 bits."""

    argument: int
    values: tuple[int, ...]


class AllOf(NamedTuple):
    """Allowed if the argument has all of these bits."""

    argument: int
    bits: int


class IsNull(NamedTuple):
    """Allowed if the argument is a null pointer."""

    argument: int


Condition = NoneOf | OneOf | AllOf | IsNull

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
"""Flags of `open`; with `O_TMPFILE` a file is written too, so one of the first two is set."""

CLONE_THREAD = 0x10000
NEW_NAMESPACES = 0x7E020000

HARMLESS_FCNTL = (0, 1, 2, 3, 4, 1030)
"""Duplicating a descriptor, and its flags; not locks, leases, nor whom a descriptor signals."""

HARMLESS_PRCTL = (15, 16)
"""The thread's name."""

NUMBERS: Mapping[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "futex": (202, 98), "mmap": (9, 222), "munmap": (11, 215),
    "mprotect": (10, 226), "madvise": (28, 233), "brk": (12, 214), "lseek": (8, 62), "pread64": (17, 67),
    "close": (3, 57), "fstat": (5, 80), "newfstatat": (262, 79), "stat": (4, None), "lstat": (6, None),
    "statx": (332, 291), "openat": (257, 56), "open": (2, None), "readv": (19, 65), "writev": (20, 66),
    "preadv": (295, 69), "preadv2": (327, 286), "access": (21, None), "faccessat": (269, 48),
    "faccessat2": (439, 439), "readlink": (89, None), "readlinkat": (267, 78), "getdents": (78, None),
    "getdents64": (217, 61), "getcwd": (79, 17), "statfs": (137, 43), "fstatfs": (138, 44),
    "fadvise64": (221, 223), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "fcntl": (72, 25),
    "pipe": (22, None), "pipe2": (293, 59), "poll": (7, None), "ppoll": (271, 73), "select": (23, None),
    "pselect6": (270, 72), "epoll_create": (213, None), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
    "epoll_wait": (232, None), "epoll_pwait": (281, 22), "mremap": (25, 216), "mincore": (27, 232),
    "membarrier": (324, 283), "clone": (56, 220), "set_tid_address": (218, 96),
    "set_robust_list": (273, 99), "get_robust_list": (274, 100), "rseq": (334, 293), "exit": (60, 93),
    "exit_group": (231, 94), "sched_yield": (24, 124), "sched_getaffinity": (204, 123),
    "sched_getparam": (143, 121), "sched_getscheduler": (145, 120), "sched_get_priority_max": (146, 125),
    "sched_get_priority_min": (147, 126), "getcpu": (309, 168), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "nanosleep": (35, 101),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getrusage": (98, 165),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136), "sigaltstack": (131, 132), "kill": (62, 129), "tgkill": (234, 131),
    "restart_syscall": (219, 128), "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "getpgrp": (111, None), "getpgid": (121, 155), "getsid": (124, 156), "getresuid": (118, 148),
    "getresgid": (120, 150), "getgroups": (115, 158), "uname": (63, 160), "sysinfo": (99, 179),
    "getrandom": (318, 278), "getrlimit": (97, 163), "prlimit64": (302, 261), "prctl": (157, 167),
    "arch_prctl": (158, None),
}  # fmt: skip
"""Allowed, by name: the numbers on x86-64 and ARM; None where the architecture has no such call. Those
that are called most come first."""

EXECUTE = (59, 221)
"""To become another program: for one that is started confined. Landlock says which."""

REFUSED: Mapping[str, tuple[tuple[int | None, int | None], int]] = {
    "ioctl": ((16, 29), errno.ENOTTY),  # what a file that is no terminal answers
    "clone": ((56, 220), errno.EPERM),
    "fork": ((57, None), errno.EPERM), "vfork": ((58, None), errno.EPERM),
    "execve": (EXECUTE, errno.EPERM), "execveat": ((322, 281), errno.EPERM),
    "socket": ((41, 198), errno.EPERM), "socketpair": ((53, 199), errno.EPERM),
}  # fmt: skip
"""Calls that fail with an error that says more than `ENOSYS`, unless they are allowed."""


def conditions(pid: int) -> Mapping[str, tuple[Condition, ...]]:
    """What is asked of the arguments of an allowed call by the process `pid`, which leads its own group."""
    itself = OneOf(0, (pid, -pid & 0xFFFFFFFF))
    return {
        "open": (NoneOf(1, WRITING),),
        "openat": (NoneOf(2, WRITING),),
        "clone": (AllOf(0, CLONE_THREAD), NoneOf(0, NEW_NAMESPACES)),
        "kill": (itself,),
        "tgkill": (OneOf(0, (pid,)),),
        "fcntl": (OneOf(1, HARMLESS_FCNTL),),
        "prctl": (OneOf(0, HARMLESS_PRCTL),),
        "prlimit64": (OneOf(0, (0, pid)), IsNull(2)),
    }
