"""Python's prompt in `manage.py shell` of a documented project: enters what files say, as they come.

It runs in the project's environment, so it imports nothing but the standard library.
"""

from __future__ import annotations

import doctest
import os
import time
from itertools import count
from pathlib import Path
from typing import Any

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def serve() -> None:
    """Enter one block after another, and report what was printed other than shown."""
    place = Path(os.environ["DOCUMENTED_SESSION"])
    names: dict[str, Any] = {"__name__": "__main__"}
    for number in count(1):
        block = place / f"{number}.pycon"
        while not block.exists():
            time.sleep(0.05)
        said: list[str] = []
        test = doctest.DocTestParser().get_doctest(block.read_text(), names, block.name, None, 0)
        test.globs = names
        doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(test, out=said.append, clear_globs=False)
        report = place / f"{number}.unfinished"
        report.write_text("".join(said))
        report.rename(place / f"{number}.report")
