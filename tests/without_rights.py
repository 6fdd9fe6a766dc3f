"""Run a Python program without the rights of root, as most run it: `without_rights.py manage.py serve`."""

from __future__ import annotations

import ctypes
import sys

from pipeline.steps.confinement.confine import drop_capabilities
from tests.fork_server import run

if __name__ == "__main__":
    drop_capabilities(ctypes.CDLL(None))
    run(sys.argv[1:])
