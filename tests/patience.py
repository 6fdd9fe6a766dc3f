"""How long a test waits for what must come, and what it calls a hang.

Bounds in tests tell "soon" from "never"; how fast things are is measured in `bench`. Where several
runs share a machine, `SLUICE_TEST_PATIENCE` says how many times longer "soon" may be.
"""

from __future__ import annotations

import os

PATIENCE = float(os.environ.get("SLUICE_TEST_PATIENCE", "1"))


def patient(seconds: float) -> float:
    """So many seconds on a machine that has nothing else to do, in seconds of this one."""
    return seconds * PATIENCE
