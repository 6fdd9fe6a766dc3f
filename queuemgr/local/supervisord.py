"""Runs `supervisor`, with the secrets in its environment, for the programs it starts, hidden from `/proc`.

python -m queuemgr.local.supervisord NAME,NAME -n -c supervisord.conf
"""

from __future__ import annotations

import sys

from queuemgr.base import secret_environment
from queuemgr.base.extras import need_extra
from queuemgr.base.private_memory import keep_private

need_extra("local", "supervisor")

from supervisor.supervisord import main  # type: ignore[import-untyped]  # noqa: E402  # it has no types

if __name__ == "__main__":
    names = sys.argv.pop(1)
    secret_environment.hide(names.split(","))
    keep_private()
    main()
