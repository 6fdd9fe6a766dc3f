"""The reference application: papers are found, fetched, read, analysed and reported."""

import sys

# httpx imports its command line where it can, and that rich and pygments: a tenth of a worker's start.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None: no such module
