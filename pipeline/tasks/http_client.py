"""The one HTTP client of this process, by the knobs."""

from __future__ import annotations

from pipeline.config import pipeline_knobs
from pipeline.steps.http.client import HttpClient, HttpOptions, shared
from queuemgr.steptools.process_lanes import lanes


def http_client() -> HttpClient:
    """Made on first use, shared by every step of this process."""
    knobs = pipeline_knobs()
    contact = f" (mailto:{knobs.contact_email})" if knobs.contact_email else ""
    return shared(
        HttpOptions(
            knobs.http_max_conn,
            knobs.http_keepalive,
            knobs.http_timeout,
            f"Sluicegate/0.1{contact}",
            io_threads=lanes().io.concurrency,
        )
    )
