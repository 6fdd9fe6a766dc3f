"""Its task: a query of its own, and a wait as for a service."""

from __future__ import annotations

import time

from django.contrib.auth import get_user_model

from queuemgr import queued


@queued
def look_and_wait(seconds: float) -> int:
    found: int = get_user_model().objects.count()
    time.sleep(seconds)
    return found
