"""What a process remembers between calls, registered in one place so that all of it can be forgotten.

A module that keeps a cache, a timer or a connection registers how to reset it. `reset_all` is for a
process that starts anew without a new interpreter: a test with a database of its own, a command that
has just read its command line, a forked child of a warm parent. The registered flows and the secrets
to be masked are not reset: they describe the program and hold for any database.
"""

from __future__ import annotations

import os
from collections.abc import Callable

_resets: list[Callable[[], object]] = []


def register(reset: Callable[[], object], *, in_forked_child: bool = False) -> None:
    """Have `reset_all` call `reset`; with `in_forked_child` every forked child calls it as it starts.

    Threads do not survive a fork, and a lock is copied as it was: state that holds either must not be
    inherited. What is merely cached may be.
    """
    _resets.append(reset)
    if in_forked_child and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)


def reset_all() -> None:
    """Forget everything this process remembers."""
    for reset in _resets:
        reset()
