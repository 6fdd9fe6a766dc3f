"""The filter of system calls: a program for the classic Berkeley Packet Filter, run before each call."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline.steps.confinement.syscalls import (
    EXECUTE,
    NUMBERS,
    REFUSED,
    AllOf,
    Condition,
    IsNull,
    NoneOf,
    OneOf,
    conditions,
)

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""By the machine's name: the column of the numbers, and the kernel's name for the architecture."""

LOAD, EQUAL, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x45, 0x54, 0x06
KILL, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
CALL, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Offsets in what the kernel gives the filter; each argument has 64 bits, the lower half first."""

SET_MODE_FILTER, ALL_THREADS, KEEP_SPECULATION = 1, 1, 4
"""`KEEP_SPECULATION`: kernels before 5.16 else slow the process by a tenth and more, for attacks between
parts of one process."""

SECCOMP_CALL = {"x86_64": 317, "aarch64": 277}


class Instruction(NamedTuple):
    """One instruction: what, how many to skip if true and if false, and a constant."""

    code: int
    if_true: int
    if_false: int
    constant: int


def program(machine: str, pid: int, *, threads: bool = True, executes: bool = False) -> list[Instruction]:
    """The filter for the process `pid`, which may start `threads`, or no more, and become another program if
    it `executes` one. Raises `KeyError` for a machine whose calls are not known."""
    column, architecture = ARCHITECTURES[machine]
    execute = [Instruction(RETURN, 0, 0, ALLOW)]
    return [
        Instruction(LOAD, 0, 0, ARCHITECTURE),
        Instruction(EQUAL, 1, 0, architecture),
        Instruction(RETURN, 0, 0, KILL),
        Instruction(LOAD, 0, 0, CALL),
        *_allowed(column, conditions(pid), [] if threads else ["clone"]),
        *(_for_call(EXECUTE[column], execute) if executes else ()),
        *_refused(column),
        Instruction(RETURN, 0, 0, ERRNO | errno.ENOSYS),
    ]


def _allowed(
    column: int, asked: Mapping[str, Sequence[Condition]], but: Sequence[str]
) -> Iterator[Instruction]:
    for name, numbers in NUMBERS.items():
        if name not in but and (number := numbers[column]) is not None:
            checks = [step for condition in asked.get(name, ()) for step in _check(condition)]
            yield from _for_call(number, [*checks, Instruction(RETURN, 0, 0, ALLOW)])


def _refused(column: int) -> Iterator[Instruction]:
    for numbers, error in REFUSED.values():
        if (number := numbers[column]) is not None:
            yield from _for_call(number, [Instruction(RETURN, 0, 0, ERRNO | error)])


def _for_call(number: int, steps: Sequence[Instruction]) -> Iterator[Instruction]:
    """These steps, which end in a return, for the call of this number only."""
    yield Instruction(EQUAL, 0, len(steps), number)
    yield from steps


def _check(condition: Condition) -> list[Instruction]:
    """Steps that continue if the condition holds, and else return an error."""
    lower = ARGUMENTS + 8 * condition.argument
    refuse, load = Instruction(RETURN, 0, 0, ERRNO | errno.EPERM), Instruction(LOAD, 0, 0, lower)
    match condition:
        case NoneOf(_, bits):
            return [load, Instruction(ANY_BIT, 0, 1, bits), refuse]
        case AllOf(_, bits):
            return [load, Instruction(AND, 0, 0, bits), Instruction(EQUAL, 1, 0, bits), refuse]
        case OneOf(_, values):
            left = range(len(values), 0, -1)
            return [load, *(Instruction(EQUAL, n, 0, v) for n, v in zip(left, values, strict=True)), refuse]
        case IsNull():
            upper = Instruction(LOAD, 0, 0, lower + 4)
            both = [load, Instruction(EQUAL, 0, 2, 0), upper, Instruction(EQUAL, 1, 0, 0)]
            return [*both, refuse]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def install(libc: ctypes.CDLL, *, threads: bool = True, executes: bool = False) -> str:
    """Install the filter in this process, for good; returns why not, or "". Needs `no_new_privs`."""
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        return f"no filter is known for {machine}"
    return install_program(libc, program(machine, os.getpid(), threads=threads, executes=executes))


def install_program(libc: ctypes.CDLL, steps: Sequence[Instruction]) -> str:
    """Install a filter in all threads of this process; returns why not, or ""."""
    code = b"".join(_packed(step) for step in steps)
    given = ctypes.byref(_Program(len(steps), code))
    for flags in (ALL_THREADS | KEEP_SPECULATION, ALL_THREADS):
        if libc.syscall(SECCOMP_CALL[os.uname().machine], SET_MODE_FILTER, flags, given) == 0:
            return ""
    return os.strerror(ctypes.get_errno())


def _packed(step: Instruction) -> bytes:
    head = step.code.to_bytes(2, "little") + bytes((step.if_true, step.if_false))
    return head + step.constant.to_bytes(4, "little")
