"""Text of strangers is read in a child process, as their PDFs are: what takes too long or too much ends with
it, and no library holds up the worker, which hears of a cancel at once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pipeline.steps.pdf.sandbox import Child, Ending, LimitExceeded, ResourceLimits, describe, died
from queuemgr import AbortSignal, StepFailed

TEXT_CHILD = Path(__file__).with_name("text_child.py")

KINDS = {"crashed": "crashed"}
"""The error kind by how the child ended; any limit is `resource_limit`."""


def read_in_child(function: str, limits: ResourceLimits, signal: AbortSignal, **arguments: Any) -> Any:
    """The result of this function of `text_child.py`, as JSON gives it back.

    Raises `StepFailed` (`resource_limit`, `crashed`), and `Aborted` as soon as the signal is set.
    """
    signal.raise_if_aborted()
    job = {"function": function, "arguments": arguments}
    deadline = time.monotonic() + limits.document_seconds
    ending = Ending("crashed")
    with Child(TEXT_CHILD, job, limits) as child, signal.hooked(child.kill):
        try:
            for line in child.lines(deadline):
                if "result" in line:
                    return line["result"]
                ending = died(line) if "died" in line else ending
        except LimitExceeded as limit:
            ending = Ending(limit.reason)
    signal.raise_if_aborted()
    kind = KINDS.get(ending.reason, "resource_limit")
    raise StepFailed(kind, f"The text could not be read: {describe(ending)}.")
