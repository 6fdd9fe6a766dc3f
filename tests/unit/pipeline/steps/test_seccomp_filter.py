"""The filter of system calls, run by an interpreter of its language for every call on each machine."""

from __future__ import annotations

import errno

import pytest

from pipeline.steps.confinement.seccomp import (
    ALLOW,
    AND,
    ANY_BIT,
    ARCHITECTURES,
    EQUAL,
    ERRNO,
    KILL,
    LOAD,
    RETURN,
    Instruction,
    program,
)
from pipeline.steps.confinement.syscalls import NUMBERS, REFUSED, conditions

PID = 4242
MACHINES = pytest.mark.parametrize("machine", ARCHITECTURES)
NOTHING = (0,) * 6


def answer(steps: list[Instruction], architecture: int, call: int, arguments: tuple[int, ...]) -> int:
    """What the filter says of a call."""
    data = call.to_bytes(4, "little") + architecture.to_bytes(4, "little") + bytes(8)
    data += b"".join((value & (1 << 64) - 1).to_bytes(8, "little") for value in arguments)
    held = at = 0
    while True:
        code, if_true, if_false, constant = steps[at]
        at += 1
        if code == RETURN:
            return constant
        if code == LOAD:
            held = int.from_bytes(data[constant : constant + 4], "little")
        elif code == AND:
            held &= constant
        else:
            holds = {EQUAL: held == constant, ANY_BIT: bool(held & constant)}[code]
            at += if_true if holds else if_false


def said(machine: str, name: str, *arguments: int) -> int:
    column, architecture = ARCHITECTURES[machine]
    number = NUMBERS[name][column]
    assert number is not None
    return answer(program(machine, PID), architecture, number, (*arguments, *NOTHING)[:6])


@MACHINES
def test_the_filter_allows_on_each_machine_exactly_what_is_listed(machine: str) -> None:
    column, architecture = ARCHITECTURES[machine]
    steps = program(machine, PID)
    free = {numbers[column] for name, numbers in NUMBERS.items() if name not in conditions(PID)}
    asked = {NUMBERS[name][column] for name in conditions(PID)}
    named = {numbers[column]: ERRNO | error for numbers, error in REFUSED.values()}
    for call in range(1024):
        if call not in asked:
            expected = ALLOW if call in free else named.get(call, ERRNO | errno.ENOSYS)
            assert answer(steps, architecture, call, NOTHING) == expected, call
        assert answer(steps, architecture, call | 0x40000000, NOTHING) == ERRNO | errno.ENOSYS


@MACHINES
def test_a_process_that_starts_no_threads_makes_no_clone_at_all(machine: str) -> None:
    column, architecture = ARCHITECTURES[machine]
    steps = program(machine, PID, threads=False)
    clone = NUMBERS["clone"][column]
    assert clone is not None
    for flags in (0, 17, 0x3D0F00):
        assert answer(steps, architecture, clone, (flags, *NOTHING[1:])) == ERRNO | errno.EPERM


@MACHINES
def test_calls_of_another_architecture_end_the_process(machine: str) -> None:
    for other in (0x40000003, 0x40000028, *(number for _, number in ARCHITECTURES.values())):
        if other != ARCHITECTURES[machine][1]:
            assert answer(program(machine, PID), other, 0, NOTHING) == KILL


ALLOWED = [
    ("openat", 0, 0, 0o2000000),
    ("clone", 0x3D0F00),
    ("kill", PID),
    ("kill", -PID),
    ("tgkill", PID, PID + 1, 6),
    ("fcntl", 3, 1030),
    ("prctl", 15),
    ("prlimit64", 0, 7, 0),
    ("prlimit64", PID, 7, 0),
]

FORBIDDEN = [
    *(("openat", 0, 0, flags) for flags in (0o1, 0o2, 0o100, 0o1000, 0o2000, 0o20200001)),
    *(("clone", flags) for flags in (17, 0x4111, 0x10010000 | 0x100, 0x40010000, 0x20000 | 0x10000)),
    *(("kill", pid) for pid in (0, 1, -1, PID + 1, -PID - 1, 1 << 31)),
    *(("tgkill", pid, pid, 0) for pid in (0, 1, PID - 1, PID + 1)),
    *(("fcntl", 3, command) for command in (5, 6, 7, 8, 10, 15, 1024, 1026, 1031, 1033)),
    *(("prctl", option) for option in (1, 4, 22, 23, 24, 36, 38, 47, 0x59616D61)),
    *(("prlimit64", 0, 7, pointer) for pointer in (1, 1 << 32, 0x7FFF00000000)),
    ("prlimit64", PID + 1, 7, 0),
]


@MACHINES
@pytest.mark.parametrize("call", ALLOWED)
def test_a_call_with_harmless_arguments_is_allowed(machine: str, call: tuple[str, int]) -> None:
    assert said(machine, *call) == ALLOW


@MACHINES
@pytest.mark.parametrize("call", FORBIDDEN)
def test_a_call_with_other_arguments_is_refused(machine: str, call: tuple[str, int]) -> None:
    assert said(machine, *call) == ERRNO | errno.EPERM


def test_no_skip_of_the_filter_is_longer_than_its_language_allows() -> None:
    for machine in ARCHITECTURES:
        steps = program(machine, PID)
        assert len(steps) < 4096
        assert max(max(step.if_true, step.if_false) for step in steps) < 256
