"""Runs `supervisor`, with the secrets in its environment, for the programs it starts, hidden from `/proc`.

python -m queuemgr.local.supervisord NAME,NAME -n -c supervisord.conf
"""

from __future__ import annotations

import sys
from typing import Any

from queuemgr.base import secret_environment
from queuemgr.base.extras import need_extra
from queuemgr.base.private_memory import keep_private

need_extra("local", "supervisor")

from supervisor import poller  # type: ignore[import-untyped]  # noqa: E402  # it has no types
from supervisor.supervisord import main  # type: ignore[import-untyped]  # noqa: E402  # it has no types

POLL_SECONDS = 0.2


class Poller(poller.Poller):  # type: ignore[misc]  # it has no types
    """supervisor looks at its programs once a second; a first start and each group of a stop wait for it."""

    def poll(self, timeout: float) -> Any:
        return super().poll(min(timeout, POLL_SECONDS))


if __name__ == "__main__":
    poller.Poller = Poller
    names = sys.argv.pop(1)
    secret_environment.hide(names.split(","))
    keep_private()
    main()
