"""The settings of an installation: data directory, database, broker, host names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, field_validator

from project.mail_server import mail_settings
from queuemgr.base.settings_group import SettingsGroup, json_stated


class ProjectSettings(SettingsGroup):
    """Where this installation stores its data, and how it reaches its servers."""

    data_dir: Path = Field(Path("var"), description="directory that holds all state")
    database_url: SecretStr = Field(
        SecretStr(""),
        validation_alias="DATABASE_URL",
        description="database; empty: SQLite in the data directory",
    )
    transaction_pooling: bool = Field(
        False, description="DATABASE_URL names a pooler in transaction mode, such as PgBouncer's"
    )
    postgres_password: SecretStr = Field(
        SecretStr(""),
        validation_alias="PGPASSWORD",
        description="password of PostgreSQL, where DATABASE_URL holds none",
    )
    broker_url: SecretStr = Field(
        SecretStr(""), validation_alias="BROKER_URL", description="broker; empty: a private server is started"
    )
    secret_key: SecretStr = Field(
        SecretStr(""),
        validation_alias="DJANGO_SECRET_KEY",
        description="signing key; empty: one is generated and stored",
    )
    storage_backend: str = Field(
        "",
        description="class of a Django storage for files, such as storages.backends.s3.S3Storage; "
        "empty: files in the data directory",
    )
    storage_options: SecretStr = Field(
        SecretStr("{}"), description="its options, as a JSON object; keys: see AWS_*"
    )
    aws_access_key_id: SecretStr = Field(
        SecretStr(""), validation_alias="AWS_ACCESS_KEY_ID", description="key id of an S3 storage"
    )
    aws_secret_access_key: SecretStr = Field(
        SecretStr(""), validation_alias="AWS_SECRET_ACCESS_KEY", description="secret key of an S3 storage"
    )
    aws_session_token: SecretStr = Field(
        SecretStr(""), validation_alias="AWS_SESSION_TOKEN", description="session token of an S3 storage"
    )
    email_url: SecretStr = Field(
        SecretStr(""),
        validation_alias="EMAIL_URL",
        description="server mail is sent through, as smtp+tls://user:password@mail.example.org:587",
    )
    email_from: str = Field(
        "sluicegate@localhost", validation_alias="DEFAULT_FROM_EMAIL", description="sender of mail"
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
        pattern=r"^(https?://[^\s/@]+(/\S*)?)?$",  # no password: pages show it
        description="Flower's address as a browser reaches it, for a link in the admin's menu; empty: none",
    )
    allowed_hosts: str = Field("localhost,127.0.0.1,[::1]", description="host names served, by comma")

    @field_validator("storage_options")
    @classmethod
    def _options_are_an_object(cls, text: SecretStr) -> SecretStr:
        try:
            options = json_stated(text.get_secret_value())
        except ValueError:
            options = None
        if not isinstance(options, dict):
            raise ValueError('must be a JSON object, such as {"bucket_name": "papers"}')
        return text

    @field_validator("email_url")
    @classmethod
    def _mail_server_is_known(cls, url: SecretStr) -> SecretStr:
        mail_settings(url.get_secret_value())
        return url

    @property
    def options_of_storage(self) -> dict[str, Any]:
        return dict(json.loads(self.storage_options.get_secret_value()))
