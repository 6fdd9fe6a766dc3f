"""The settings of lanes reach the steps that do such work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from unittest.mock import Mock

import pytest

from pipeline.config import PipelineSettings
from pipeline.ocr_options import ocr_options
from pipeline.steps.http.client import HttpOptions
from pipeline.tasks import analyse, http_client
from queuemgr.base import process_state
from queuemgr.steptools.lanes import Lane
from queuemgr.steptools.subprocess_group import THREAD_VARIABLES


@pytest.fixture
def lanes(configure: Callable[..., None]) -> Iterator[Callable[..., None]]:
    """Set settings of lanes for one test: `lanes(model_threads=3)`."""

    def set_lanes(**values: int) -> None:
        configure(**values)
        process_state.reset_all()

    yield set_lanes
    process_state.reset_all()


def test_a_local_ocr_engine_has_the_threads_of_a_model_run(lanes: Callable[..., None]) -> None:
    lanes(model_threads=3)
    assert ocr_options(PipelineSettings()).local.threads == 3


def test_the_local_analyser_has_the_threads_of_a_model_run(
    lanes: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set before its numeric libraries are loaded; variables that a person has set are left alone."""
    for name in THREAD_VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(analyse, "analyse", lambda *_: seen.append(dict(os.environ)))
    monkeypatch.setattr(analyse, "_text", lambda document: "text")
    lanes(model_threads=3)
    analyse._analysis(Mock(), Mock(), Mock())
    assert {seen[0][name] for name in THREAD_VARIABLES if name != "MKL_NUM_THREADS"} == {"3"}
    assert seen[0]["MKL_NUM_THREADS"] == "7"


def test_the_http_client_writes_as_many_files_at_once_as_files_may_be_written(
    lanes: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[HttpOptions] = []
    monkeypatch.setattr(http_client, "shared", made.append)
    lanes(file_concurrency=3, io_concurrency=7)
    http_client.http_client()
    (options,) = made
    assert (options.file_threads, options.io_threads) == (3, 7)


def test_chunks_of_a_paper_are_analysed_in_the_lane_for_io(lanes: Callable[..., None]) -> None:
    lanes(io_concurrency=3, llm_chunks_inflight=8)
    options = analyse.options_for({})
    assert options.lane == Lane("io", 3, 12)
    assert (options.lane_for(20), options.lane_for(2)) == (Lane("io", 3, 12), Lane("io", 2, 12))
