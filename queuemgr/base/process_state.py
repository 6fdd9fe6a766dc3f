"""What a process remembers between calls, registered in one place so that all of it can be reset.

A module that keeps a cache, a timer or a connection registers how to reset it. `reset_all` is for a
process that starts anew without a new interpreter: a test with a database of its own, or a forked child
of a warm parent. The registered flows and the secrets to be masked are not reset: they describe the
program and hold for any database.
"""

from __future__ import annotations

import os
from collections.abc import Callable

_resets: list[Callable[[], object]] = []
_setting_resets: list[Callable[[], object]] = []


def register_settings(reset: Callable[[], object]) -> None:
    """Have `reset_settings`, and so `reset_all`, call `reset`: it drops values read from settings."""
    _setting_resets.append(reset)


def register(reset: Callable[[], object], *, in_forked_child: bool = False) -> None:
    """Have `reset_all` call `reset`; with `in_forked_child` every forked child calls it as it starts.

    Threads do not survive a fork, and a lock is copied as it was: state that holds either must not be
    inherited. What is merely cached may be.
    """
    _resets.append(reset)
    if in_forked_child and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)


def reset_all() -> None:
    reset_settings()
    for reset in _resets:
        reset()


def reset_settings() -> None:
    """Have settings read again: all that changes when a command line is applied."""
    for reset in _setting_resets:
        reset()
