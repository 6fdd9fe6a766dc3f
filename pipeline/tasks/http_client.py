"""The HTTP client of this process, configured by the settings."""

from __future__ import annotations

from pipeline.config import pipeline_settings
from pipeline.steps.http.client import HttpClient, HttpOptions, shared
from queuemgr.steptools.process_lanes import lanes


def http_client() -> HttpClient:
    """Created on first use, shared by every step of this process."""
    config, lanes_here = pipeline_settings(), lanes()
    contact = f" (mailto:{config.contact_email})" if config.contact_email else ""
    return shared(
        HttpOptions(
            config.http_max_conn,
            config.http_keepalive,
            config.http_timeout,
            f"Sluicegate/0.1{contact}",
            io_threads=lanes_here.value("io_concurrency"),
            file_threads=lanes_here.value("file_concurrency"),
        )
    )
