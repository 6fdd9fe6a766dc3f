"""Papers on an S3-compatible server that freezes and goes away in the middle: nothing is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline import doctor, storage
from pipeline.models import Document
from project import storage as project_storage
from project.config import ProjectSettings
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.local.private_servers import free_port, wait_for_port
from queuemgr.models import Attempt, Execution
from tests.integration.conftest import let_time_pass, played  # noqa: F401  # a fixture
from tests.integration.pipeline.conftest import _folders, papers  # noqa: F401  # fixtures
from tests.integration.pipeline.papers_fixtures import STEPS, Papers

boto3 = pytest.importorskip("boto3")
pytest.importorskip("moto.server")
pytest.importorskip("storages")

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.filterwarnings("ignore")]

PAPER = Path(__file__).parents[2] / "samples" / "two-column.pdf"


class ObjectStore:
    """moto's S3 server in a process of its own."""

    def __init__(self, log: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        with log.open("wb") as out:
            command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
            self.process = subprocess.Popen(command, stdout=out, stderr=out)
        wait_for_port(port)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def store(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """With the settings of docs/operate.md, but for shorter waits."""
    monkeypatch.setattr(project_storage, "CONNECT_SECONDS", 1)
    monkeypatch.setattr(project_storage, "READ_SECONDS", 1)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-this-test")
    server = ObjectStore(tmp_path / "moto.log")
    try:
        boto3.client("s3", endpoint_url=server.url, region_name="us-east-1").create_bucket(Bucket="papers")
        options = {
            "bucket_name": "papers", "endpoint_url": server.url, "region_name": "us-east-1",
            "addressing_style": "path",
        }  # fmt: skip
        backend = "storages.backends.s3.S3Storage"
        config = ProjectSettings.load(
            {"SLUICE_STORAGE_BACKEND": backend, "SLUICE_STORAGE_OPTIONS": json.dumps(options)}
        )
        settings.STORAGES = {**settings.STORAGES, "default": project_storage.file_storage(config)}
        yield server
    finally:
        server.stop()


def test_a_paper_is_finished_on_an_object_store_that_froze_at_each_of_its_steps(
    store: ObjectStore,
    papers: Papers,  # noqa: F811  # the fixture
) -> None:
    papers.parse_item(PAPER)
    for step in STEPS:
        grant = papers.work(until=step)
        assert grant is not None
        store.freeze()
        try:
            papers.worker.end(grant, papers.run(grant), next_too=False)
        finally:
            store.thaw()
        let_time_pass(Execution.objects.filter(state="waiting"))
        dispatch()
    papers.work()
    assert Execution.objects.get().state == "done"
    assert set(Attempt.objects.exclude(error_kind="").values_list("error_kind", flat=True)) == {"storage"}
    document = Document.objects.get()
    for name in (document.pdf.name, document.text.name, document.report_html.name):
        assert storage.size(name) > 0
    with storage.opened(document.pdf.name) as file:
        assert file.read() == PAPER.read_bytes()


def test_doctor_names_an_object_store_that_went_away(store: ObjectStore) -> None:
    assert doctor._storage().level == "good"
    store.stop()
    found = doctor._storage()
    assert found.level == "bad"
    assert "Could not connect to the endpoint URL" in found.what
    assert "secret-of-this-test" not in found.what
