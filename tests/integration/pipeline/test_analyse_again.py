"""A retry of a long paper's analysis does not pay again for what was paid for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage

from pipeline.config import pipeline_settings
from pipeline.models import Document
from queuemgr.flows.outcomes import Done, Failed
from queuemgr.models import Execution
from tests.fake_llm import GOOD, FakeLlm, Reply, completion, is_merge, text_of
from tests.integration.conftest import let_time_pass
from tests.integration.pipeline.analyse_fixtures import (
    SECRET,
    AnalyseRunner,
    long_paper,
    outcomes,
    served_model,
)
from tests.integration.pipeline.step_fixtures import RemoteStorage, charged

pytestmark = [
    pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("texts_are_read_in_this_process")
]  # fmt: skip

LONG = long_paper()
PARTS = 4
"""Of `LONG` in a context of 3,700 tokens with answers of 200; asserted below."""


@pytest.fixture
def model(set_settings: Callable[..., None]) -> Iterator[FakeLlm]:
    with served_model(set_settings, llm_chunks_inflight=1) as model:
        yield model


@pytest.fixture
def runner(model: FakeLlm, played: Callable[..., Any]) -> AnalyseRunner:
    return AnalyseRunner(played(slots=40))


def sound(request: dict[str, Any]) -> Reply:
    return completion(GOOD if is_merge(request) else f"notes on {name_of(request)}")


def failing(name: str) -> Callable[[dict[str, Any]], Reply]:
    """A model that fails one request of a paper."""
    refusal = 503, {"error": {"message": "overloaded"}}
    return lambda request: refusal if name_of(request) == name else sound(request)


def name_of(request: dict[str, Any]) -> str:
    """`Part n of m`, or `merge`."""
    if is_merge(request):
        return "merge"
    return str(request["messages"][-1]["content"]).partition(".")[0]


def part(number: int) -> str:
    return f"Part {number} of {PARTS}"


ALL = [*map(part, range(1, PARTS + 1)), "merge"]


def again(runner: AnalyseRunner, model: FakeLlm) -> list[str]:
    """One more attempt without the fault; returns its requests."""
    before = len(model.requests)
    model.reply = sound
    let_time_pass(Execution.objects.all())
    (result,) = runner.once()
    assert isinstance(result, Done), result
    return [name_of(request) for request in model.requests[before:]]


def kept(document: Document) -> str:
    return f"analysis/{document.file_stem}.notes.jsonl"


@pytest.mark.parametrize("broken", [part(1), part(PARTS), "merge"])
def test_a_second_attempt_asks_only_for_what_the_first_did_not_get(
    runner: AnalyseRunner, model: FakeLlm, broken: str
) -> None:
    model.reply = failing(broken)
    runner.add("long", LONG)
    (result,) = runner.once()
    assert isinstance(result, Failed)
    index = ALL.index(broken)
    assert [name_of(request) for request in model.requests] == ALL[: index + 1]
    assert again(runner, model) == ALL[index:]
    merge = text_of(model.requests[-1])
    assert all(f"notes on {part(n)}" in merge for n in range(1, PARTS + 1)), "nothing left out"
    assert [cost for _, cost in outcomes()] == [index + 1, len(ALL) - index]
    assert charged() == len(model.requests) == len(ALL) + 1, "only the failure was paid twice"


def test_notes_are_removed_with_the_analysis_stored_and_not_before(
    runner: AnalyseRunner, model: FakeLlm
) -> None:
    model.reply = failing("merge")
    runner.add("long", LONG)
    runner.once()
    name = kept(Document.objects.get())
    notes = Path(default_storage.path(name)).read_text()
    assert part(PARTS) in notes and SECRET not in notes, "notes, and not the paper"
    model.reply = sound
    let_time_pass(Execution.objects.all())
    (grant,) = runner.begin()
    result = runner.run(grant)
    assert default_storage.exists(name), "until it is stored"
    runner.end(grant, result)
    assert not default_storage.exists(name)
    assert Document.objects.get().analysis["summary"] == GOOD["summary"]


def test_notes_cut_off_by_a_kill_are_asked_for_again_and_the_others_are_not(
    runner: AnalyseRunner, model: FakeLlm
) -> None:
    model.reply = failing(part(3))
    runner.add("long", LONG)
    runner.once()
    path = Path(default_storage.path(kept(Document.objects.get())))
    path.write_bytes(path.read_bytes()[:-9])
    assert again(runner, model) == ALL[1:]


def test_notes_of_another_model_are_not_taken(
    runner: AnalyseRunner, model: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.reply = failing("merge")
    runner.add("long", LONG)
    runner.once()
    monkeypatch.setenv("SLUICE_LLM_MODEL", "m-2")
    pipeline_settings.cache_clear()
    assert again(runner, model) == ALL


def test_notes_that_cannot_be_stored_are_used_all_the_same(runner: AnalyseRunner, model: FakeLlm) -> None:
    runner.add("long", LONG)
    folder = Path(default_storage.path("analysis"))

    def in_the_way(request: dict[str, Any]) -> Reply:
        folder.write_bytes(b"where the folder should be")
        return sound(request)

    model.reply = in_the_way
    (result,) = runner.once()
    assert isinstance(result, Done), result
    assert len(model.requests) == len(ALL)


def test_a_storage_that_is_no_disk_keeps_notes_when_an_attempt_fails(
    runner: AnalyseRunner, model: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = RemoteStorage()
    monkeypatch.setattr("pipeline.storage.default_storage", far)
    model.reply = failing(part(PARTS))
    runner.add("long", LONG)
    with Document.objects.get().text.open() as text:
        far.save(text.name, text)
    runner.once()
    assert far.exists(kept(Document.objects.get()))
    assert again(runner, model) == ALL[PARTS - 1 :]
    assert not far.exists(kept(Document.objects.get()))
