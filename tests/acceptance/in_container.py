"""Run `celery …` in a PID namespace of its own, with a `/proc` of its own, as `unshare --pid --fork
--mount-proc` does: as in a container, its pid is 1. Started by the fork server, it needs no second."""

from __future__ import annotations

import ctypes
import os
import sys

CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000


def call(name: str, *arguments: object) -> None:
    """A function of the C library; raises `OSError` if it fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc[name](*arguments):
        raise OSError(ctypes.get_errno(), name)


def main() -> None:
    call("unshare", CLONE_NEWPID | CLONE_NEWNS)
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
    call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    call("mount", b"proc", b"/proc", b"proc", 0, None)
    from celery.__main__ import main as celery

    sys.argv[0] = "celery"
    celery()


if __name__ == "__main__":
    main()
