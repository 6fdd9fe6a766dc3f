"""Whether this process is a child of a pool that its parent has asked to end."""

from __future__ import annotations

from billiard import common as billiard


def is_shutting_down() -> bool:
    """Whether this is a child of a prefork pool whose parent has asked it to end: what raised in it since is
    not the application's."""
    return bool(billiard.terminate_handler_fired())  # type: ignore[attr-defined]  # newer than its stubs
