"""What a restored backup took back: runs and requests of that time whose leases no longer exist."""

from __future__ import annotations

from dataclasses import replace

from proof.records import History

AFTER_SECONDS = 2.0
"""Seconds after a restore in which a step granted before it may still begin or send."""


def without_what_was_taken_back(history: History) -> History:
    """The history without the runs and requests between a backup and its restore: their attempts are gone
    with what was written then."""
    if not history.rewinds:
        return history
    runs = [run for run in history.runs if not _taken_back(history, run.start)]
    requests = [request for request in history.requests if not _taken_back(history, request.start)]
    return replace(history, runs=runs, requests=requests)


def _taken_back(history: History, moment: float) -> bool:
    return any(r.backup <= moment <= r.restored + AFTER_SECONDS for r in history.rewinds)
