"""Starts another program confined, as parsers are: `python -I start.py PROGRAM ARGUMENT…`.

The program reads itself, libraries and what it needs, writes only to the pipes it was given, and reaches no
network and no other process. It may become no other program: the kernel's filter of calls lets it start the
one, and Landlock no other. Standard library only.
"""

from __future__ import annotations

import os
import resource
import shutil
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))

DATA = (
    "/usr/share/tessdata", "/usr/share/tesseract-ocr", "/usr/share/tesseract", "/usr/local/share/tessdata",
    "/opt/homebrew/share/tessdata",
)  # fmt: skip
"""Where Tesseract's languages may be."""

PROGRAMS = ("/bin", "/usr/bin", "/usr/local", "/usr/lib", "/nix/store", "/gnu/store", "/snap", "/opt")
"""Where a script that is called like a program may have the program."""

OPEN_FILES = 64
LOAD_BY, MOST_LOADERS = 3, 4


def main(program: str, arguments: list[str]) -> None:
    path = shutil.which(program)
    if path is None:
        sys.exit(f"there is no program {program}")
    sys.path.append(ROOT)
    from pipeline.steps.confinement.confine import confine_to_program

    for limit, most in (
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        with suppress(ValueError, OSError):  # it is lower already
            resource.setrlimit(limit, (most, most))
    confine_to_program(list(executed(path)), data_of(path))
    os.execv(path, [program, *arguments])  # noqa: S606 - no shell is wanted


def data_of(path: str) -> list[str]:
    """What it reads: its languages, where they usually are or its variable says, and what it was installed
    with in a directory of its own."""
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(path)))
    own = [os.path.join(prefix, name) for name in ("lib", "share") if prefix != "/"]
    return [*DATA, *own, *filter(None, [os.environ.get("TESSDATA_PREFIX")])]


def executed(path: str) -> Iterator[str]:
    """The file of a program, and those that the kernel executes to load it. A script starts the program it
    stands for, which may be any of the system's."""
    for _ in range(MOST_LOADERS):
        yield os.path.realpath(path)
        is_script, found = loader(path)
        if is_script:
            yield from filter(os.path.isdir, PROGRAMS)
        if not found:
            return
        path = found


def loader(path: str) -> tuple[bool, str]:
    """Whether it is a script, and what the kernel loads it with: its interpreter, or its dynamic loader."""
    with open(path, "rb") as file:
        head = file.read(4096)
    if head.startswith(b"#!"):
        words = head.partition(b"\n")[0][2:].split()
        return True, os.fsdecode(words[0]) if words else ""
    if not head.startswith(b"\x7fELF\x02"):
        return False, ""
    (table,) = struct.unpack_from("=Q", head, 32)
    size, count = struct.unpack_from("=HH", head, 54)
    for number in range(count):
        at = table + number * size
        if at + size > len(head):
            break
        (kind,) = struct.unpack_from("=I", head, at)
        if kind == LOAD_BY:
            (begin,), (length,) = (
                struct.unpack_from("=Q", head, at + 8),
                struct.unpack_from("=Q", head, at + 32),
            )
            return False, os.fsdecode(head[begin : begin + length].rstrip(b"\0"))
    return False, ""


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
