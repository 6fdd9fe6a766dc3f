"""The pure functions of OCR: answers, page lists, the choice of an engine, backoff, cost."""

from __future__ import annotations

import pytest

from pipeline.config import PipelineSettings
from pipeline.ocr_config import pages_at_once, requests_reserved, rounded_up
from pipeline.steps.extract.page_ranges import pages_of
from pipeline.steps.ocr.engine import AvailableEngines, EngineChoice, EngineSetting, choose_engine
from pipeline.steps.ocr.page_map import Pacing, PageRequest, failed
from pipeline.steps.ocr.vision_response import is_repetitive, parsed
from pipeline.steps.pdf.page_outcomes import EncodeError, ParseError, PdfError, RateLimit, page_failed
from queuemgr.base.errors import BadInput, StepFailed

ANSWER = (
    "---\nprimary_language: en\nis_rotation_valid: {valid}\nrotation_correction: {rotation}\n"
    "is_table: True\nis_diagram: False\n---\nWater rose."
)


def test_the_front_matter_is_separated_from_the_text() -> None:
    found = parsed(ANSWER.format(valid="True", rotation=0))
    assert (found.text, found.language, found.is_table) == ("Water rose.", "en", True)
    assert found.quarters == 0


@pytest.mark.parametrize(("rotation", "quarters"), [(90, 1), (180, 2), (270, 3)])
def test_the_answer_for_a_rotated_page_contains_its_rotation(rotation: int, quarters: int) -> None:
    assert parsed(ANSWER.format(valid="False", rotation=rotation)).quarters == quarters
    assert parsed(ANSWER.format(valid="True", rotation=rotation)).quarters == 0


def test_text_without_front_matter_and_a_fenced_answer_are_taken() -> None:
    assert parsed("Water rose.").text == "Water rose."
    assert parsed("```markdown\nWater rose.\n```").text == "Water rose."


@pytest.mark.parametrize(
    "answer",
    ["---\nprimary_language: en", "---\nno colon\n---\nx", ANSWER.format(valid="maybe", rotation=0),
     ANSWER.format(valid="False", rotation=45)],
)  # fmt: skip
def test_a_broken_front_matter_is_no_page(answer: str) -> None:
    with pytest.raises(ParseError):
        parsed(answer)


def test_an_end_that_repeats_itself_is_found_and_leaders_are_not() -> None:
    assert is_repetitive("It begins. " + "and so on " * 60)
    assert is_repetitive("a" * 400)
    assert not is_repetitive("Contents " + "." * 900)
    assert not is_repetitive("Water rose and fell, and rose again. " * 3)


@pytest.mark.parametrize(("typed", "pages"), [("1,4-6", [1, 4, 5, 6]), ("6, 1", [1, 6]), ("2-3,3", [2, 3])])
def test_a_list_of_pages_is_each_once_and_in_page_order(typed: str, pages: list[int]) -> None:
    assert pages_of(typed, 6) == pages


@pytest.mark.parametrize("typed", ["", "1,", "-2", "1-", "2-1", "0", "1.5", "٣", "7", "1-999999999"])
def test_a_bad_list_of_pages_is_refused_quoting_it(typed: str) -> None:
    with pytest.raises(BadInput, match="page list"):
        pages_of(typed, 6)


NONE = ("rapidocr",)
ENG = frozenset({"eng", "osd"})


@pytest.mark.parametrize(
    ("setting", "languages", "available", "expected"),
    [
        ("auto", "", AvailableEngines(True), EngineChoice("remote")),
        ("auto", "", AvailableEngines(False, (), ENG), EngineChoice("rapidocr")),
        ("auto", "eng", AvailableEngines(False, (), ENG), EngineChoice("tesseract", "eng")),
        ("auto", "eng+deu", AvailableEngines(False, (), ENG), EngineChoice("rapidocr")),
        ("auto", "", AvailableEngines(False, NONE, ENG), EngineChoice("tesseract", "eng")),
        ("rapidocr", "eng", AvailableEngines(True, (), ENG), EngineChoice("rapidocr")),
        ("tesseract", "", AvailableEngines(True, (), ENG), EngineChoice("tesseract", "eng")),
    ],
)
def test_the_engine_is_the_one_named_or_the_best_there_is(
    setting: EngineSetting, languages: str, available: AvailableEngines, expected: EngineChoice
) -> None:
    assert choose_engine(setting, languages, available) == expected


@pytest.mark.parametrize(
    ("setting", "languages", "available", "remedy"),
    [
        ("auto", "", AvailableEngines(False, NONE), "make install"),
        ("remote", "", AvailableEngines(False), "SLUICE_OCR_BASE_URL"),
        ("tesseract", "deu", AvailableEngines(False, (), ENG), "SLUICE_OCR_LANGUAGES"),
        ("tesseract", "", AvailableEngines(False), "not installed"),
    ],
)
def test_no_engine_is_refused_with_the_remedy(
    setting: EngineSetting, languages: str, available: AvailableEngines, remedy: str
) -> None:
    with pytest.raises(StepFailed, match=remedy):
        choose_engine(setting, languages, available)


def test_a_wait_doubles_to_its_ceiling_cannot_overflow_and_gives_way_to_retry_after() -> None:
    pacing = Pacing(base_delay=1.0, max_delay=60.0)
    error = RateLimit("slow down")
    assert 4.0 <= pacing.wait(error, 3) <= 4.5
    assert 60.0 <= pacing.wait(error, 10_000) <= 60.5
    assert 7.0 <= pacing.wait(RateLimit("slow down", retry_after=7.0), 1) <= 7.5


def test_a_reserve_covers_every_page_and_some_second_tries() -> None:
    configure = PipelineSettings(ocr_max_retries=3)
    for pages in (1, 2, 7, 72, 352, 1000):
        reserve = requests_reserved(configure, pages)
        assert pages < reserve <= max(4 * pages, pages + 3) * 1.5
    assert len({requests_reserved(configure, pages) for pages in range(1, 1001)}) < 25
    assert requests_reserved(PipelineSettings(ocr_max_retries=0), 8) == 8


def test_a_document_takes_no_more_shares_than_pages_or_than_exist() -> None:
    configure = PipelineSettings(ocr_inflight=32, max_ocr_requests=20)
    assert [pages_at_once(configure, n) for n in (1, 5, 31, 500)] == [1, 6, 20, 20]
    assert [rounded_up(n) for n in (1, 2, 3, 4, 5, 7, 9, 13, 17)] == [1, 2, 3, 4, 6, 8, 12, 16, 24]


@pytest.mark.parametrize("error", [PdfError("no"), EncodeError("no")])
def test_a_page_that_cannot_be_drawn_was_attempted_once(error: PdfError | EncodeError) -> None:
    assert failed(PageRequest(0, 1), error).as_line()["attempts"] == 1
    assert failed(PageRequest(0, 1), RateLimit("Every request is refused.")).attempts == 0


@pytest.mark.parametrize("status", [408, 504])
def test_a_server_that_ran_out_of_time_is_a_timeout(status: int) -> None:
    error = page_failed(StepFailed("server_error", "It took too long.", http_status=status))
    assert (error.name, error.retryable, error.http_status) == ("Timeout", True, status)
