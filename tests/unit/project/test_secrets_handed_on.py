"""Libraries that read secrets from the environment are given them: a worker has none there any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from project.config import ProjectSettings
from project.database import database
from project.storage import file_storage
from queuemgr.lifecycle import tracing

S3 = "storages.backends.s3.S3Storage"
OWN_CLIENT = '{"client_config": {}, "bucket_name": "papers"}'


def test_an_s3_storage_is_given_the_keys_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, f"of-{name}")
    config = ProjectSettings.load({"SLUICE_STORAGE_BACKEND": S3, "SLUICE_STORAGE_OPTIONS": OWN_CLIENT})
    options = file_storage(config)["OPTIONS"]
    assert options["access_key"] == "of-AWS_ACCESS_KEY_ID"
    assert options["secret_key"] == "of-AWS_SECRET_ACCESS_KEY"
    assert options["security_token"] == "of-AWS_SESSION_TOKEN"


@pytest.mark.parametrize(
    ("backend", "options"),
    [(S3, '{"client_config": {}, "session_profile": "p"}'), ("other.Storage", OWN_CLIENT), (S3, OWN_CLIENT)],
)
def test_no_keys_are_given_where_there_are_none_or_others_apply(
    backend: str, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if options != OWN_CLIENT or backend != S3:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-environment")
    config = ProjectSettings.load({"SLUICE_STORAGE_BACKEND": backend, "SLUICE_STORAGE_OPTIONS": options})
    assert "secret_key" not in file_storage(config)["OPTIONS"]


@pytest.mark.parametrize(
    ("url", "password"), [("postgres://u@h/d", "of-libpq"), ("postgres://u:of-the-url@h/d", "of-the-url")]
)
def test_postgres_is_given_the_password_of_libpq_unless_the_url_has_one(url: str, password: str) -> None:
    made = database(url, Path(), transaction_pooling=False, process="p", password="of-libpq")
    assert made["PASSWORD"] == password


def test_traces_are_sent_with_the_headers_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=of%20all,x-other=1")
    assert tracing._headers() == {"api-key": "of all", "x-other": "1"}
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "api-key=of-traces")
    from queuemgr.base import process_state

    process_state.reset_settings()
    assert tracing._headers() == {"api-key": "of-traces"}
