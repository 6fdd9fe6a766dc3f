"""Confines itself as a child of the sandbox does, and says what the system lacks for it.

Run as `python -I probe.py`; prints a JSON list of sentences, empty if all holds.
"""

from __future__ import annotations

import json
import os
import sys

if __name__ == "__main__":
    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))
    from pipeline.steps.confinement.confine import confine

    print(json.dumps(confine([])))
