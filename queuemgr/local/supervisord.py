"""Runs `supervisor`, with the secrets in its environment, for the programs it starts, hidden from `/proc`.

python -m queuemgr.local.supervisord NAME,NAME -n -c supervisord.conf
"""

from __future__ import annotations

import sys

from supervisor.supervisord import main  # type: ignore[import-untyped]  # it has no types

from queuemgr.base import secret_environment

if __name__ == "__main__":
    names = sys.argv.pop(1)
    secret_environment.hide(names.split(","))
    main()
