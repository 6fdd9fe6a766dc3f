"""Which names a limit may have: those some work could run under."""

from __future__ import annotations

import re

from django.core.exceptions import ValidationError

from queuemgr.flows.flow import all_phases, all_queues
from queuemgr.scheduling.admission import FLEET

KEY = re.compile(r"[^\s:*]+:[^\s*]*\*?")
TOKEN = re.compile(r"[^\s:*=]+")
TAKEN = {"everything", "all", "virtual_time", "workers", "retries", "run_after", "batch_window"}
"""Words that stand for something else wherever limits are named."""


def check_name(name: str) -> None:
    """Refuse names no work could ever run under, saying which there are."""
    phases = [f"phase:{phase}" for phase in all_phases()]
    if name == FLEET or name in phases or is_token(name):
        return
    if name.startswith("phase:") or not KEY.fullmatch(name) or name.endswith(":"):
        raise ValidationError(
            f"Not a limit's name. There are: {FLEET}; {', '.join(phases)}; a token such as cpu, as "
            "steps name them; a key such as host:api.example.org:443; or a pattern such as host:*, with "
            "its star at the end."
        )


def is_token(name: str) -> bool:
    """A word of its own: neither the fleet, nor a phase or a queue, nor a word taken otherwise."""
    others = {FLEET, *all_phases(), *all_queues(), *TAKEN}
    return bool(TOKEN.fullmatch(name)) and name not in others
