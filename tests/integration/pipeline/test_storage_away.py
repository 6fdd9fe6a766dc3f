"""Whatever the storage raises, steps fail as `storage` and are retried, pages say 503, `doctor` names it."""

from __future__ import annotations

import ast
import http.client
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.test import Client

from pipeline import doctor, files, storage
from pipeline.models import Document
from queuemgr.base.errors import LeaseLost, StepFailed
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.models import Attempt, Execution
from tests.integration.conftest import let_time_pass
from tests.integration.pipeline import failing_storage
from tests.integration.pipeline.papers_fixtures import STEPS, Papers

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).parents[3]
PAPER = ROOT / "samples" / "two-column.pdf"


class BotocoreLike(Exception):
    """As botocore's: no `OSError`, with a message of its own."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError


RAISED: dict[str, Exception] = {
    "botocore's": BotocoreLike('Could not connect to the endpoint URL: "http://127.0.0.1:1/papers"'),
    "an OSError": PermissionError(13, "Permission denied"),
    "one without a message": OSError(),
    "a time-out": TimeoutError("timed out"),
    "http.client's": http.client.RemoteDisconnected("closed without response"),
    "a KeyError": KeyError("ETag"),
    "a RuntimeError": RuntimeError("cannot schedule new futures after shutdown"),
    "one whose message raises": Unprintable(),
}


@pytest.fixture(autouse=True)
def failing(settings: Any, tmp_path: Path) -> Iterator[dict[str, BaseException]]:
    settings.STORAGES = {
        **settings.STORAGES,
        "default": {"BACKEND": "tests.integration.pipeline.failing_storage.FailingStorage"},
    }
    failing_storage.raises.clear()
    yield failing_storage.raises
    failing_storage.raises.clear()


CALLS = {
    "save": lambda: storage.save("a", ContentFile(b"b")),
    "open": lambda: storage.copy("kept", io.BytesIO()),
    "read": lambda: storage.copy("kept", io.BytesIO()),
    "exists": lambda: storage.exists("kept"),
    "size": lambda: storage.size("kept"),
    "delete": lambda: storage.delete("kept"),
    "listdir": lambda: storage.names_in("folder"),
    "get_modified_time": lambda: storage.modified_at("kept"),
}


@pytest.mark.parametrize("method", CALLS)
def test_whatever_the_storage_raises_becomes_a_failure_of_kind_storage(
    method: str, failing: dict[str, BaseException]
) -> None:
    default_storage.save("kept", ContentFile(b"line\nline\n"))
    for how, error in RAISED.items():
        failing[method] = error
        with pytest.raises(StepFailed) as failed:
            CALLS[method]()
        assert failed.value.kind == "storage", how
        assert "could not be" in failed.value.message, how


def test_what_is_ours_passes_the_storage_as_it_is(failing: dict[str, BaseException]) -> None:
    failing["save"] = LeaseLost("gone")
    with pytest.raises(LeaseLost):
        storage.save("a", ContentFile(b"b"))


@pytest.mark.parametrize(
    "method",
    ["save", "read", *(pytest.param(name, marks=pytest.mark.slow_proof) for name in ("open", "exists"))],
)
def test_a_paper_whose_storage_is_away_at_any_time_waits_and_is_finished_when_it_is_back(
    method: str, failing: dict[str, BaseException], papers: Papers
) -> None:
    """At each step in turn: one attempt of kind `storage`, then the same step again, and nothing twice."""
    papers.parse_item(PAPER)
    for step in STEPS:
        grant = papers.work(until=step)
        assert grant is not None
        failing[method] = RAISED["botocore's"]
        papers.worker.end(grant, papers.run(grant), next_too=False)
        failing.clear()
        let_time_pass(Execution.objects.filter(state="waiting"))
        dispatch()
    papers.work()
    assert Execution.objects.get().state == "done"
    kinds = set(Attempt.objects.exclude(error_kind="").values_list("error_kind", flat=True))
    assert kinds <= {"storage"}
    assert kinds
    done = list(Attempt.objects.filter(outcome="done").order_by("pk").values_list("step", flat=True))
    assert done == STEPS


@pytest.mark.parametrize("method", ["open", "read", "exists"])
def test_a_page_says_503_and_when_to_try_again(
    method: str, failing: dict[str, BaseException], superuser: Client
) -> None:
    document = Document(key="k", kind="file", source="k")
    document.pdf.save("k.pdf", ContentFile(b"%PDF"))
    for how, error in RAISED.items():
        failing[method] = error
        response = superuser.get(f"/documents/{document.pk}/pdf")
        assert response.status_code == 503, how
        assert response["Retry-After"] == "30", how
        assert "storage does not answer" in response.content.decode(), how
    failing.clear()
    response = superuser.get(f"/documents/{document.pk}/pdf")
    assert b"".join(response.streaming_content) == b"%PDF"  # type: ignore[attr-defined]
    response.close()


@pytest.mark.parametrize("method", ["save", "open", "read", "delete"])
def test_doctor_writes_reads_and_deletes_a_file_and_names_what_fails(
    method: str, failing: dict[str, BaseException]
) -> None:
    assert doctor._storage().level == "good"
    failing[method] = RAISED["botocore's"]
    found = doctor._storage()
    assert found.level == "bad"
    assert "Could not connect to the endpoint URL" in found.what
    assert "SLUICE_STORAGE_OPTIONS" in found.remedy


def test_cleaning_up_and_removing_never_fail_for_the_storage(failing: dict[str, BaseException]) -> None:
    failing.update(dict.fromkeys(("delete", "listdir"), RAISED["botocore's"]))
    files.remove("a")
    assert files.remove_old_checkpoints() == 0


def test_every_use_of_the_storage_is_in_one_module() -> None:
    """A call elsewhere would raise what the backend raises."""
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "pipeline").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id in ("default_storage", "storages")
    }
    assert found == {"pipeline/storage.py"}
