"""The other side of `process_group.in_process`: call one function, hand back what came of it.

Run as a script, never imported by the worker. It speaks pickle with the process that started it
and with nobody else: what is called and what comes back are both our own.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from typing import BinaryIO


def main() -> None:
    """Obey one request from standard input: where modules are, then a function and its arguments."""
    out = private_output()
    sys.path[:] = pickle.load(sys.stdin.buffer)  # noqa: S301 - written by our own parent
    try:
        function, args = pickle.load(sys.stdin.buffer)  # noqa: S301 - likewise
        threading.Thread(target=die_with_parent, daemon=True).start()
        answer = pickle.dumps((function(*args), None))
    except Exception as error:
        answer = as_answer(error)
    out.write(answer)
    out.flush()


def as_answer(error: Exception) -> bytes:
    """The error as it is, or in words where it cannot travel."""
    try:
        answer = pickle.dumps((None, error))
        pickle.loads(answer)  # noqa: S301 - some errors can be written and not read
    except Exception:
        answer = pickle.dumps((None, RuntimeError(f"{type(error).__name__}: {error}")))
    return answer


def private_output() -> BinaryIO:
    """Keep the pipe to ourselves: a function that prints must not spoil the answer."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return pipe


def die_with_parent() -> None:
    """Standard input ends when the worker does, however it ends: then so does this group."""
    while os.read(0, 1024):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
