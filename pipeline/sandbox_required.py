"""Whether the kernel confines what reads PDFs, and refusing to read them where it must and does not."""

from __future__ import annotations

from subprocess import SubprocessError

from pipeline.config import pipeline_settings
from pipeline.steps.pdf import sandbox
from queuemgr import StepFailed
from queuemgr.extend.settings import read_once

REMEDY = (
    "run Linux 5.13 or later on x86-64 or ARM, with `landlock` in its list of security modules (lsm=…), "
    "and let a container call both (Docker 23 or later does)"
)


def refuse_without_sandbox() -> None:
    """Raise `StepFailed` where `SLUICE_REQUIRE_SANDBOX` is set and the kernel cannot confine a child."""
    if pipeline_settings().require_sandbox and (lacks := lacking()):
        raise StepFailed("no_sandbox", f"This worker reads no PDF: it lacks {lacks}. Remedy: {REMEDY}.")


def lacking() -> str:
    """What the kernel lacks to confine a child, in words; "" if nothing."""
    try:
        return " and ".join(_lacking())
    except (OSError, ValueError, SubprocessError) as error:
        return f"a child that could say ({type(error).__name__})"


@read_once
def _lacking() -> tuple[str, ...]:
    """Asked once: a kernel stays the same while a process runs."""
    return sandbox.lacking()
