"""Where files are kept: a folder on this machine, or a storage that all machines reach."""

from __future__ import annotations

from typing import Any

from project.config import ProjectSettings

LOCAL = "pipeline.local_storage.LocalStorage"

CONNECT_SECONDS, READ_SECONDS, TRIES = 5, 30, 2
"""Of a request to an object store: boto's own values let a step wait for five minutes before it fails."""


def file_storage(config: ProjectSettings) -> dict[str, Any]:
    """The entry of Django's `STORAGES`."""
    if not config.storage_backend:
        return {"BACKEND": LOCAL, "OPTIONS": {"allow_overwrite": True}}
    options = config.options_of_storage
    if config.storage_backend.startswith("storages.backends.s3"):
        options = {**_aws_keys(config), **options}
        if "client_config" not in options:
            options["client_config"] = _client_config(options.pop("addressing_style", "auto"))
    return {"BACKEND": config.storage_backend, "OPTIONS": options}


def _aws_keys(config: ProjectSettings) -> dict[str, str]:
    """The storage would read them from the environment, where a worker keeps no secrets."""
    if not config.aws_secret_access_key.get_secret_value() or "session_profile" in config.options_of_storage:
        return {}
    keys = {
        "access_key": config.aws_access_key_id,
        "secret_key": config.aws_secret_access_key,
        "security_token": config.aws_session_token,
    }
    return {name: key.get_secret_value() for name, key in keys.items() if key.get_secret_value()}


def _client_config(addressing_style: str) -> Any:
    from botocore.config import Config

    return Config(
        connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS, retries={"max_attempts": TRIES},
        s3={"addressing_style": addressing_style},
    )  # fmt: skip
