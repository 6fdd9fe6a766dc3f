"""Validates the names of limits."""

from __future__ import annotations

import re

from django.core.exceptions import ValidationError

from queuemgr.flows.flow import all_phases, all_queues
from queuemgr.scheduling.admission import FLEET

KEY = re.compile(r"[^\s:*]+:[^\s*]*\*?")
TOKEN = re.compile(r"[^\s:*=]+")
RESERVED = {"everything", "all", "virtual_time", "workers", "retries", "run_after", "batch_window"}
"""Words with another meaning wherever limits are named."""


def check_name(name: str) -> None:
    """Raise `ValidationError` for a name under which no work could ever run."""
    phases = [f"phase:{phase}" for phase in all_phases()]
    if name == FLEET or name in phases or is_token(name):
        return
    if name.startswith("phase:") or not KEY.fullmatch(name) or name.endswith(":"):
        raise ValidationError(
            f"Not a limit's name. Valid are: {FLEET}; {', '.join(phases)}; a token such as cpu, as "
            "steps name them; a key such as host:api.example.org:443; or a pattern such as host:*, with "
            "its star at the end."
        )


def is_token(name: str) -> bool:
    """Is it a token: neither the fleet, a phase, a queue nor a reserved word?"""
    others = {FLEET, *all_phases(), *all_queues(), *RESERVED}
    return bool(TOKEN.fullmatch(name)) and name not in others
