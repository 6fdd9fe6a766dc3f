"""The settings of an installation: data directory, database, broker, host names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, Json

from queuemgr.base.config import SettingsGroup


class ProjectSettings(SettingsGroup):
    """Where this installation stores its data, and how it reaches its servers."""

    data_dir: Path = Field(Path("var"), description="directory that holds all state")
    database_url: str = Field(
        "", validation_alias="DATABASE_URL", description="database; empty: SQLite in the data directory"
    )
    transaction_pooling: bool = Field(
        False, description="DATABASE_URL names a pooler in transaction mode, such as PgBouncer's"
    )
    broker_url: str = Field(
        "", validation_alias="BROKER_URL", description="broker; empty: a private server is started"
    )
    secret_key: str = Field(
        "",
        validation_alias="DJANGO_SECRET_KEY",
        description="signing key; empty: one is generated and stored",
    )
    storage_backend: str = Field(
        "",
        description="class of a Django storage for files, such as storages.backends.s3.S3Storage; "
        "empty: files in the data directory",
    )
    storage_options: Json[dict[str, Any]] = Field(
        "{}", validate_default=True, description="its options, as a JSON object; keys: see AWS_*"
    )
    debug: bool = Field(False, description="Django's debug pages")
    trusted_origins: str = Field(
        "", description="origins forms may come from through a proxy, by comma: https://papers.example.org"
    )
    behind_tls_proxy: bool = Field(
        False, description="a proxy ends TLS and sets X-Forwarded-Proto; cookies are then secure"
    )
    flower_url: str = Field(
        "",
        pattern=r"^(https?://\S+)?$",
        description="Flower's address as a browser reaches it, for a link in the admin's menu; empty: none",
    )
    allowed_hosts: str = Field("localhost,127.0.0.1,[::1]", description="host names served, by comma")
