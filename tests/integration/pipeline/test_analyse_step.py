"""The analysis as a step: what is reserved and charged for it, and what it stores."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from pipeline.config import pipeline_settings
from pipeline.intake import store_schemas
from pipeline.models import METHOD_CHARACTERS, Document
from pipeline.steps.analyse.custom_schema import read_schema
from pipeline.steps.analyse.prompts import PROMPT_VERSION, prompt_hash
from pipeline.steps.llm import endpoint as endpoints
from queuemgr.base.scheduler_lock import database_now
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Snoozed
from queuemgr.models import Attempt, Execution, Lease, State
from queuemgr.scheduling import limit_rows
from queuemgr.worker import housekeeping
from queuemgr.worker.work import Work
from tests.fake_llm import GOOD, FakeLlm, completion, is_merge
from tests.integration.conftest import let_time_pass
from tests.integration.pipeline.analyse_fixtures import (
    SECRET,
    SHORT,
    AnalyseRunner,
    long_paper,
    outcomes,
    reserved,
    served_model,
)
from tests.integration.pipeline.step_fixtures import charged

pytestmark = [
    pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("texts_are_read_in_this_process")
]  # fmt: skip

LONG = long_paper()
PARTS = 4
"""Of `LONG` in a context of 3,700 tokens with answers of 200; asserted below."""


@pytest.fixture
def model(set_settings: Callable[..., None]) -> Iterator[FakeLlm]:
    with served_model(set_settings, llm_api_key="sk-for-this-test") as model:
        model.reply = lambda request: completion(GOOD if is_merge(request) or _whole(request) else "notes")
        yield model


def _whole(request: dict[str, Any]) -> bool:
    return not request["messages"][-1]["content"].startswith("Part ")


@pytest.fixture
def runner(model: FakeLlm, played: Callable[..., Any]) -> AnalyseRunner:
    return AnalyseRunner(played(slots=40))


# ---- what is reserved


def test_a_long_paper_reserves_a_request_a_chunk_one_to_merge_and_a_spare_one(
    runner: AnalyseRunner, model: FakeLlm
) -> None:
    runner.add("long", LONG)
    (grant,) = runner.begin()
    assert (grant.context, reserved()) == ({"llm_chunks": PARTS}, PARTS + 2)
    runner.end(grant, runner.run(grant))
    document = Document.objects.get()
    assert len(model.requests) == document.requests == charged() == PARTS + 1, "the spare is back"
    assert (document.method, document.prompt_version) == ("model:m-1", PROMPT_VERSION)
    assert (document.prompt_tokens, document.completion_tokens) == (10 * (PARTS + 1), 5 * (PARTS + 1))
    assert document.analysis["title"] == document.title == GOOD["title"]


def test_an_unmeasured_paper_is_requeued_with_its_cost_and_this_is_no_attempt(
    runner: AnalyseRunner, model: FakeLlm
) -> None:
    """For example after the context was made smaller: nothing is sent until enough is reserved."""
    runner.add("long", LONG, counted=False)
    runner.once()
    assert (model.requests, charged()) == ([], 0)
    runner.once()
    assert outcomes() == [("snoozed", 0), ("done", PARTS + 1)]


def test_a_prompt_refused_for_its_length_is_asked_in_halves_once_across_leases(
    runner: AnalyseRunner, model: FakeLlm
) -> None:
    """At most one adapted retry per item."""
    model.refuse(400, "maximum context length is 1500 tokens, you sent 2411")
    runner.add("long", LONG)
    runner.once()
    message = Attempt.objects.get().error_message
    assert "is 1500 tokens, you sent 2411" in message and "By our count" in message
    runner.once()
    assert [outcome for outcome, _ in outcomes()] == ["snoozed", "done"]
    assert charged() == len(model.requests)


def test_a_second_refusal_for_length_fails_with_the_numbers(runner: AnalyseRunner, model: FakeLlm) -> None:
    model.reply = lambda request: (
        400,
        {"error": {"code": "context_length_exceeded", "message": "9 allowed, 99 sent"}},
    )
    runner.add("long", LONG)
    for _ in range(4):
        runner.once()
    failed = Execution.objects.get()
    assert (failed.state, failed.error_kind) == (State.FAILED, "too_long")
    assert "9 allowed, 99 sent" in failed.error_message and "By our count" in failed.error_message
    assert [outcome for outcome, _ in outcomes()] == ["snoozed", "failed"]
    assert charged() == len(model.requests)
    assert SECRET not in failed.error_message


def test_an_endpoint_without_response_format_costs_two_refusals_and_no_attempt(
    runner: AnalyseRunner, model: FakeLlm
) -> None:
    model.refuse(400, "response_format json_schema is not supported")
    model.refuse(400, "response_format is not supported")
    runner.add("short", SHORT)
    runner.once()
    endpoints.reset_dialects()  # the next lease is another process's
    runner.once()
    assert outcomes() == [("snoozed", 2), ("done", 1)]
    assert "response_format" not in model.requests[-1]


# ---- a person's schema


TRIALS = read_schema({"type": "object", "properties": {"gates": {"type": "integer"}}, "required": ["gates"]})


def with_schema(runner: AnalyseRunner, digest: str) -> None:
    runner.add("short", SHORT)
    Execution.objects.update(payload={"schema": digest})


def test_a_schema_is_stored_with_what_was_extracted_by_it(runner: AnalyseRunner, model: FakeLlm) -> None:
    store_schemas([TRIALS])
    with_schema(runner, TRIALS.digest)
    model.reply = lambda request: completion({**GOOD, "extracted": {"gates": 3}, "evidence": []})
    runner.once()
    document = Document.objects.get()
    assert document.analysis["extracted"] == {"gates": 3}
    assert document.analysis["field_evidence"]["gates"]["verdict"] == "no quote"
    assert document.extraction_schema is not None and document.extraction_schema.text == TRIALS.text
    assert document.prompt_hash == prompt_hash(TRIALS.text) != prompt_hash()


def test_the_schema_of_the_setting_is_for_papers_without_one_of_their_own(
    runner: AnalyseRunner, model: FakeLlm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "s.json").write_text(TRIALS.text)
    monkeypatch.setenv("SLUICE_PAPER_SCHEMA", str(tmp_path / "s.json"))
    pipeline_settings.cache_clear()
    runner.add("short", SHORT)
    runner.once()
    document = Document.objects.get()
    assert document.extraction_schema_id == TRIALS.digest
    assert document.analysis["anomalies"] == ["extracted: not an object"], "asked twice"
    assert len(model.requests) == 2


def test_a_schema_that_is_gone_is_a_failure_and_costs_nothing(runner: AnalyseRunner, model: FakeLlm) -> None:
    with_schema(runner, "ab" * 32)
    (result,) = runner.once()
    assert isinstance(result, Failed)
    assert (result.kind, charged(), model.requests) == ("schema_missing", 0, [])


# ---- the budget


def all_at_once(runner: AnalyseRunner, in_threads: Callable[..., list[Any]]) -> None:
    """Run everything that may start, each in its own thread, until nothing is left."""
    while grants := runner.begin():
        results = in_threads(len(grants), lambda n, begun=grants: runner.run(begun[n]))
        for grant, result in zip(grants, results, strict=True):
            runner.end(grant, result)


def test_a_budget_of_20_is_not_passed_by_long_papers_racing(
    runner: AnalyseRunner, model: FakeLlm, in_threads: Any, configure: Callable[..., None]
) -> None:
    """Three of six reserve the whole budget; what they refund is not enough for another."""
    configure(daily_budget=20)
    limit_rows.sync()
    for number in range(6):
        runner.add(f"long-{number}", LONG)
    all_at_once(runner, in_threads)
    assert len(model.requests) == charged() == 3 * (PARTS + 1)
    assert (reserved(), Execution.objects.waiting().filter(step="analyse").count()) == (0, 3)


@pytest.mark.parametrize("mended", [False, True], ids=["as estimated", "half more"])
def test_a_budget_of_20_is_not_passed_by_32_slots_and_40_papers(
    mended: bool, runner: AnalyseRunner, model: FakeLlm, in_threads: Any, configure: Callable[..., None]
) -> None:
    """No usage row at first; the model's own count is the reference. Half of the answers
    need a retry, which takes more requests than a paper usually does."""
    configure(daily_budget=20, max_workers=32)
    limit_rows.sync()
    count = iter(range(1_000))
    model.reply = lambda request: completion("no JSON" if mended and next(count) % 2 else GOOD)
    for number in range(40):
        runner.add(f"short-{number}", SHORT)
    all_at_once(runner, in_threads)
    assert 18 <= len(model.requests) == charged() <= 20


ENDINGS: dict[str, Callable[[FakeLlm], object]] = {
    "error": lambda model: model.refuse(500, "oops"),
    "broken": lambda model: model.answers.append((200, {"choices": []})),
    "cut off": lambda model: model.answers.extend([completion("", "length")] * 2),
    "two bad answers": lambda model: model.answers.extend([completion("no"), completion("no")]),
    "filtered": lambda model: model.answers.append(completion("half", "content_filter")),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_however_an_analysis_ends_unsent_requests_are_refunded(
    ending: str, runner: AnalyseRunner, model: FakeLlm
) -> None:
    """Nothing stays reserved, and the charge is the model's own count."""
    ENDINGS[ending](model)
    runner.add("short", SHORT)
    (result,) = runner.once()
    assert isinstance(result, Failed)
    assert (reserved(), charged()) == (0, len(model.requests))
    document = Document.objects.get()
    with_usage = 0 if ending in ("error", "broken") else len(model.requests)
    assert (document.requests, document.prompt_tokens) == (len(model.requests), 10 * with_usage)
    assert document.analysis == {}


@pytest.mark.parametrize("ending", ["cancelled", "lost", "store fails", "ended twice"])
def test_whatever_interrupts_an_analysis_unsent_requests_are_refunded(
    ending: str, runner: AnalyseRunner, model: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.add("long", LONG)
    (grant,) = runner.begin()
    signal = AbortSignal()
    if ending == "cancelled":
        model.seconds = 20
        threading.Thread(target=_abort_once_asked, args=(signal, model)).start()
    if ending == "store fails":
        monkeypatch.setattr("pipeline.tasks.documents.store", _no_room)
    result = runner.run(grant, signal)
    if ending == "lost":
        Lease.objects.update(expires_at=database_now() - timedelta(seconds=1))
        housekeeping.tick()
    runner.end(grant, result)
    runner.end(grant, result)
    assert not Lease.objects.filter(pk=grant.lease_id).exists()
    assert charged() == len(model.requests) > 0
    assert len(outcomes()) == 1
    assert (ending == "cancelled") == isinstance(result, Interrupted)


def _abort_once_asked(signal: AbortSignal, model: FakeLlm) -> None:
    """Once every request that was charged has come: they are sent at once, and do not all arrive at once."""
    until, seen = time.monotonic() + 60, 0
    while time.monotonic() < until and (seen == 0 or len(model.requests) > seen):
        seen = len(model.requests)
        time.sleep(0.5 if seen else 0.05)
    signal.abort("cancelled")


def _no_room(pk: int, columns: dict[str, Any]) -> None:
    raise OSError("no room")


def test_a_request_that_cannot_be_charged_is_not_sent_and_is_no_attempt(
    runner: AnalyseRunner, model: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reservation, no call; the paper waits without using an attempt."""

    def away(work: Work, requests: int = 1) -> None:
        raise OperationalError("database is locked")

    runner.add("long", LONG)
    with monkeypatch.context() as broken:
        broken.setattr(Work, "record_requests", away)
        (result,) = runner.once()
    assert isinstance(result, Snoozed) and "charge" in result.reason
    assert (model.requests, charged(), outcomes()) == ([], 0, [("snoozed", 0)])
    let_time_pass(Execution.objects.all())
    (result,) = runner.once()
    assert isinstance(result, Done)


def test_a_text_that_is_gone_costs_what_was_charged(runner: AnalyseRunner, model: FakeLlm) -> None:
    """The text is gone from the storage: nothing was sent, so nothing is charged."""
    runner.add("short", SHORT)
    document = Document.objects.get()
    document.text.storage.delete(document.text.name)
    (result,) = runner.once()
    assert isinstance(result, Failed)
    assert (result.kind, result.cost, charged()) == ("storage", 0, 0)


def test_a_model_whose_name_is_longer_than_the_column_is_stored_cut(
    runner: AnalyseRunner, model: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_LLM_MODEL", "m" * 300)
    pipeline_settings.cache_clear()
    runner.add("short", SHORT)
    runner.once()
    assert Document.objects.get().method == ("model:" + "m" * 300)[:METHOD_CHARACTERS]


def test_a_step_that_lost_its_lease_sends_nothing_more(runner: AnalyseRunner, model: FakeLlm) -> None:
    runner.add("long", LONG)
    (grant,) = runner.begin()
    Lease.objects.all().delete()
    assert isinstance(runner.run(grant), Interrupted)
    assert model.requests == []


def test_failed_tries_add_to_what_the_document_has_used(runner: AnalyseRunner, model: FakeLlm) -> None:
    model.say("no JSON")
    model.say("none either")
    runner.add("short", SHORT)
    runner.once()
    let_time_pass(Execution.objects.all())
    runner.once()
    document = Document.objects.get()
    assert (document.requests, document.prompt_tokens) == (3, 30)
    assert charged() == 3
