"""One faulty server and one HTTP client for the download tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.steps.http.client import HttpClient, HttpOptions
from tests.integration.pipeline.steps.faulty_server import FaultyServer


@pytest.fixture(scope="module")
def one_faulty_server() -> Iterator[FaultyServer]:
    with FaultyServer() as server:
        yield server


@pytest.fixture
def faulty(one_faulty_server: FaultyServer) -> FaultyServer:
    one_faulty_server.clear()
    return one_faulty_server


@pytest.fixture(scope="module")
def http() -> Iterator[HttpClient]:
    client = HttpClient(HttpOptions(timeout=30.0, user_agent="Sluicegate-tests/1.0"))
    yield client
    client.close()


@pytest.fixture
def loop_stays_quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """asyncio logs nothing, such as exceptions never retrieved or tasks destroyed."""
    yield
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


@pytest.fixture
def into(tmp_path: Path) -> Path:
    """A directory for temporary files."""
    directory = tmp_path / "parts"
    directory.mkdir()
    return directory
