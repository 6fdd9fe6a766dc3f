"""Where files are kept: a folder on this machine, or a storage that all machines reach."""

from __future__ import annotations

from typing import Any

from project.config import ProjectSettings

LOCAL = "django.core.files.storage.FileSystemStorage"

CONNECT_SECONDS, READ_SECONDS, TRIES = 5, 30, 2
"""Of a request to an object store: boto's own values let a step wait for five minutes before it fails."""


def file_storage(config: ProjectSettings) -> dict[str, Any]:
    """The entry of Django's `STORAGES`."""
    if not config.storage_backend:
        return {"BACKEND": LOCAL, "OPTIONS": {"allow_overwrite": True}}
    options = dict(config.storage_options)
    if config.storage_backend.startswith("storages.backends.s3") and "client_config" not in options:
        from botocore.config import Config

        options["client_config"] = Config(
            connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS, retries={"max_attempts": TRIES},
            s3={"addressing_style": options.pop("addressing_style", "auto")},
        )  # fmt: skip
    return {"BACKEND": config.storage_backend, "OPTIONS": options}
