"""What papers cost at a model: estimated, reserved, charged as the endpoint reports it, and stored."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError

from pipeline import doctor
from pipeline.flows import MODEL_LIMIT, MODEL_USD, PAPERS
from pipeline.model_uses import analysis_uses, ocr_uses
from pipeline.models import Document
from pipeline.ocr_config import OCR_LIMIT
from pipeline.steps.llm.usage import most_plausible
from queuemgr.flows.abort_signal import AbortSignal
from queuemgr.flows.outcomes import Done, Failed, Interrupted
from queuemgr.models import AllowanceUsage, Attempt, Lease, Limit
from queuemgr.operations import controls
from queuemgr.scheduling import limit_rows
from queuemgr.worker.work import Work
from tests.fake_llm import GOOD, FakeLlm, Reply, completion, is_merge
from tests.integration.pipeline.analyse_fixtures import SHORT, AnalyseRunner, long_paper, served_model
from tests.integration.pipeline.ocr_fixtures import OcrRunner
from tests.integration.pipeline.steps.ocr_endpoint import Answer, VisionEndpoint, error, text
from tests.integration.scheduling.limited_work import ANN

pytestmark = [
    pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("texts_are_read_in_this_process")
]  # fmt: skip

PRICES = json.dumps({
    "m-1": {"input": "0.15", "cached_input": "0.075", "output": "0.6"},
    "eye": {"input": "1", "output": "2", "image": "0.0001"},
})  # fmt: skip
LONG = long_paper()
PARTS = 4


def used(
    prompt: int, completed: int, *, cached: int = 0, content: object = GOOD, finish: str = "stop"
) -> Reply:
    status, body = completion(content, finish)
    usage = {"prompt_tokens": prompt, "completion_tokens": completed}
    return status, body | {"usage": usage | {"prompt_tokens_details": {"cached_tokens": cached}}}


@pytest.fixture
def model(set_settings: Callable[..., None]) -> Iterator[FakeLlm]:
    with served_model(
        set_settings, model_prices=PRICES, tokens_per_minute=600_000, daily_usd=20.5
    ) as endpoint:
        endpoint.reply = lambda request: used(
            1_001, 11, content="notes" if request["messages"][-1]["content"].startswith("Part ") else GOOD
        )
        yield endpoint


@pytest.fixture
def runner(model: FakeLlm, played: Callable[..., Any]) -> AnalyseRunner:
    limit_rows.sync()
    return AnalyseRunner(played(slots=40))


def charges() -> list[str]:
    return [uses or "" for uses in Attempt.objects.order_by("pk").values_list("uses", flat=True)]


def stored() -> tuple[int, int, int]:
    document = Document.objects.get()
    return document.micro_usd, document.priced_requests, document.requests


# ---- charged


def test_a_paper_is_charged_the_tokens_and_dollars_that_the_server_reports(
    runner: AnalyseRunner, model: FakeLlm
) -> None:
    model.answers.append(used(2_001, 301, cached=1_000))
    runner.add("short", SHORT)
    runner.once()
    # 1,001 at 0.15, 1,000 cached at 0.075 and 301 at 0.6 are 405.75 millionths.
    assert charges() == ["tokens=2302 usd=406"]
    assert stored() == (406, 1, 1)
    assert Document.objects.get().cached_tokens == 1_000
    assert AllowanceUsage.objects.get(limit=MODEL_USD, allowance="usd/day").spent == 406


def test_the_parts_of_a_long_paper_are_added_up_before_they_are_rounded(
    runner: AnalyseRunner, model: FakeLlm
) -> None:
    runner.add("long", LONG)
    runner.once()
    each = 1_001 * 15 + 11 * 60  # hundredths of a millionth
    assert charges() == [f"tokens={1_012 * (PARTS + 1)} usd={-(-each * (PARTS + 1) // 100)}"]
    assert stored() == (-(-each * (PARTS + 1) // 100), PARTS + 1, PARTS + 1)


def test_answers_that_are_useless_and_asked_for_again_are_charged(
    runner: AnalyseRunner, model: FakeLlm
) -> None:
    model.answers += [used(100, 7, content="no JSON"), used(200, 8, content="no JSON")]
    runner.add("short", SHORT)
    (result,) = runner.once()
    assert isinstance(result, Failed)
    assert charges() == ["tokens=315 usd=54"]
    assert stored() == (54, 2, 2)


def test_an_answer_that_reports_more_tokens_than_its_request_can_have_used_is_charged_what_it_can(
    runner: AnalyseRunner, model: FakeLlm, caplog: pytest.LogCaptureFixture
) -> None:
    """One false answer would spend the dollars of a day: here some 150 of 20.50."""
    model.answers.append(used(10**9, 10**9, cached=10**9))
    runner.add("short", SHORT)
    runner.once()
    sent = sum(len(message["content"].encode()) for message in model.requests[0]["messages"])
    document = Document.objects.get()
    most = most_plausible([], model.requests[0]["max_tokens"])
    assert (document.prompt_tokens, document.completion_tokens) == (sent + most[0], most[1])
    assert AllowanceUsage.objects.get(limit=MODEL_USD, allowance="usd/day").spent < 100_000
    assert "llm:chat: 1 answers report more tokens" in caplog.text


@pytest.mark.parametrize("status", [500, 429, 401])
def test_a_refused_paper_is_charged_nothing_whatever_was_expected_of_it(
    status: int, runner: AnalyseRunner, model: FakeLlm
) -> None:
    model.refuse(status, "no")
    runner.add("short", SHORT)
    (grant,) = runner.begin()
    assert "tokens=" in Lease.objects.get().uses
    runner.end(grant, runner.run(grant))
    assert charges() == [""]
    assert stored() == (0, 1, 1)


def test_a_paper_whose_answer_does_not_come_in_time_is_charged_what_was_expected(
    runner: AnalyseRunner, model: FakeLlm, set_settings: Callable[..., None]
) -> None:
    """The endpoint may have worked on it."""
    set_settings(llm_timeout=0.3)
    model.seconds = 1.5
    runner.add("short", SHORT)
    (grant,) = runner.begin()
    expected = Lease.objects.get().uses
    runner.end(grant, runner.run(grant))
    assert charges() == [expected] != [""]
    assert stored() == (0, 0, 1)


def test_a_cancelled_paper_is_charged_the_answers_it_got(runner: AnalyseRunner, model: FakeLlm) -> None:
    signal = AbortSignal()

    def reply(request: dict[str, Any]) -> Reply:
        if is_merge(request):
            threading.Thread(target=signal.abort, args=["cancelled"]).start()
            threading.Event().wait(1)
        return used(1_000, 10, content="notes")

    model.reply = reply
    runner.add("long", LONG)
    (grant,) = runner.begin()
    result = runner.run(grant, signal)
    runner.end(grant, result)
    assert isinstance(result, Interrupted)
    assert charges() == [f"tokens={1_010 * PARTS} usd={156 * PARTS}"]
    assert stored() == (156 * PARTS, PARTS, PARTS + 1)


def test_what_the_database_did_not_accept_is_charged_with_the_next_answer(
    runner: AnalyseRunner, model: FakeLlm, monkeypatch: pytest.MonkeyPatch
) -> None:
    spend, failures = Work.spend, iter([True])

    def sometimes(work: Work, **amounts: Any) -> None:
        if next(failures, False):
            raise OperationalError("database is locked")
        spend(work, **amounts)

    monkeypatch.setattr(Work, "spend", sometimes)
    runner.add("short", SHORT)
    (result,) = runner.once()
    assert isinstance(result, Done)
    assert charges() == ["tokens=1012 usd=157"]


def test_a_server_that_reports_no_tokens_is_charged_what_was_expected(
    runner: AnalyseRunner, model: FakeLlm
) -> None:
    status, body = completion(GOOD)
    model.answers.append((status, {"choices": body["choices"]}))
    runner.add("short", SHORT)
    (grant,) = runner.begin()
    expected = Lease.objects.get().uses
    runner.end(grant, runner.run(grant))
    assert charges() == [expected]
    assert stored() == (0, 0, 1)


def test_without_a_price_tokens_are_charged_and_no_dollars(
    runner: AnalyseRunner, model: FakeLlm, set_settings: Callable[..., None]
) -> None:
    set_settings(llm_model="m-2")
    runner.add("short", SHORT)
    runner.once()
    assert charges() == ["tokens=1012"]
    assert stored() == (0, 0, 1)


# ---- expected


def test_a_paper_is_expected_to_use_what_the_step_before_counted(model: FakeLlm) -> None:
    one = analysis_uses({"llm_chunks": 1, "llm_tokens": 1_200})
    assert one == {"tokens": 1_200 + 700 + 200, "usd": 0.000405}, "1,900 at 0.15 and 200 at 0.6"
    many = analysis_uses({"llm_chunks": PARTS, "llm_tokens": 9_120})
    assert many["tokens"] > 9_120 + (PARTS + 1) * 700


def test_a_paper_larger_than_the_allowance_of_a_minute_takes_all_of_it(
    model: FakeLlm, runner: AnalyseRunner, set_settings: Callable[..., None]
) -> None:
    """It could never start otherwise."""
    for allowed in (1_234, 1_000, 987):
        set_settings(tokens_per_minute=allowed, daily_usd=0.0001)
        limit_rows.sync()
        assert 0 < analysis_uses({"llm_tokens": 9_000})["tokens"] <= allowed * 10 / 11
    runner.add("long", LONG)
    assert len(runner.begin()) == 1


def test_the_local_analyser_and_a_local_engine_use_nothing(set_settings: Callable[..., None]) -> None:
    assert (analysis_uses({"llm_tokens": 9}), ocr_uses({"pages_without_text": [1]})) == ({}, {})
    steps = {ref.step.name: ref.step for ref in PAPERS.steps()}
    context = {"llm_chunks": 9, "pages_without_text": [1]}
    assert [steps[name].cost(context) for name in ("analyse", "ocr")] == [0, 0], "no request is booked"


# ---- settings


def test_settings_state_the_allowances_of_the_limits_that_the_steps_name(
    model: FakeLlm, set_settings: Callable[..., None]
) -> None:
    set_settings(ocr_base_url=model.base_url, ocr_model="eye", ocr_tokens_per_minute=5_000)
    limit_rows.sync()
    rows = dict(Limit.objects.values_list("name", "allowances"))
    assert rows[MODEL_LIMIT] == "600,000 tokens/minute"
    assert rows[OCR_LIMIT] == "5,000 tokens/minute"
    assert rows[MODEL_USD] == "20.50 usd/day"
    keys = {ref.step.name: ref.step.key({}) for ref in PAPERS.steps()}
    assert keys["analyse"] == (MODEL_LIMIT, MODEL_USD)
    assert keys["ocr"] == (OCR_LIMIT, MODEL_USD)


@pytest.mark.parametrize(("setting", "limit"), [("tokens_per_minute", MODEL_LIMIT), ("daily_usd", MODEL_USD)])
def test_an_allowance_on_a_command_line_overrides_an_operators_edit_and_another_setting_does_not(
    setting: str, limit: str, model: FakeLlm
) -> None:
    limit_rows.sync()
    stated = Limit.objects.get(name=limit).allowances
    controls.edit_limit(limit, ANN, allowances="7 tokens/minute")
    limit_rows.sync(forced=["max_llm"])
    assert Limit.objects.get(name=limit).allowances == "7 tokens/minute"
    limit_rows.sync(forced=[setting])
    assert Limit.objects.get(name=limit).allowances == stated


def test_no_start_brings_what_papers_cost_above_the_dollars_of_a_day(
    model: FakeLlm, runner: AnalyseRunner, set_settings: Callable[..., None]
) -> None:
    set_settings(daily_usd=0.001)
    limit_rows.sync()
    for number in range(9):
        runner.add(f"short-{number}", SHORT)
    while runner.once():
        pass
    spent = AllowanceUsage.objects.get(limit=MODEL_USD, allowance="usd/day").spent
    assert spent == 157 * len(model.requests) <= 1_000
    assert 1 < len(model.requests) < 9


# ---- pages


@pytest.fixture
def vision(set_settings: Callable[..., None]) -> Iterator[VisionEndpoint]:
    pytest.importorskip("pypdfium2")
    with VisionEndpoint().serving() as endpoint:
        set_settings(
            ocr_base_url=endpoint.base_url, ocr_model="eye", ocr_inflight=4, ocr_base_delay=0.01,
            ocr_max_delay=0.05, model_prices=PRICES,
        )  # fmt: skip
        yield endpoint


def read(page: int) -> Answer:
    answer = text(f"page {page}")
    usage = {"prompt_tokens": 1_000, "completion_tokens": 100}
    return Answer(answer.body | {"usage": usage})


def test_pages_read_by_an_endpoint_are_charged_with_their_pictures_retries_too(
    vision: VisionEndpoint, played: Callable[..., Any]
) -> None:
    runner = OcrRunner(played(slots=8), vision)
    vision.usual = lambda request: read(request.page)
    unusable = read(2)
    unusable.body["choices"][0]["message"]["content"] = "---\nno fields"
    vision.next_for[2] = [unusable]
    vision.next_for[3] = [error(503)]
    runner.add("scan", pages=3)
    (grant,) = runner.begin()
    assert Lease.objects.get().uses == "tokens=8500 usd=12000", "of 8,400 tokens, and 3 pictures"
    runner.end(grant, runner.run(grant))
    assert len(vision.requests) == 5
    assert charges() == [f"tokens={4 * 1_100} usd={4 * (1_000 + 200 + 100)}"]
    assert stored() == (4 * 1_300, 5, 5)


def test_doctor_names_a_model_without_a_price_whose_dollars_are_to_be_limited(
    model: FakeLlm, set_settings: Callable[..., None]
) -> None:
    assert list(doctor._prices()) == []
    set_settings(llm_model="m-2")
    (found,) = doctor._prices()
    assert (found.level, "m-2 has no price" in found.what) == ("bad", True)
