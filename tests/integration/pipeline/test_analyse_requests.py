"""`SLUICE_MAX_LLM_REQUESTS`: concurrent requests to the model, over all papers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline.config import PipelineSettings, chunks_at_once
from pipeline.flows import LLM_REQUESTS
from queuemgr.models import Lease
from queuemgr.scheduling import limit_rows
from tests.integration.pipeline.analyse_fixtures import SHORT, AnalyseRunner, long_paper

pytestmark = [
    pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("texts_are_read_in_this_process")
]  # fmt: skip


@pytest.fixture
def runner(played: Callable[..., Any], set_settings: Callable[..., None]) -> AnalyseRunner:
    set_settings(
        llm_base_url="http://127.0.0.1:1/v1", llm_context_tokens=4100, llm_max_tokens=200,
        max_llm_requests=6,
    )  # fmt: skip
    return AnalyseRunner(played(slots=40))


def test_a_paper_takes_a_share_for_each_of_its_concurrent_chunks(runner: AnalyseRunner) -> None:
    limit_rows.sync()
    for n in range(3):
        runner.add(f"long-{n}", long_paper())  # in 4 parts
        runner.add(f"short-{n}", SHORT)
    begun = runner.begin()
    taken = {lease.execution.key: lease.resources for lease in Lease.objects.all()}
    assert len(begun) == len(taken)
    places = {
        key: int(resources.partition(f"{LLM_REQUESTS}=")[2].split()[0]) for key, resources in taken.items()
    }
    assert sum(places.values()) == 6, places
    assert all(count == (4 if "long" in key else 1) for key, count in places.items())


def test_a_paper_alone_asks_no_more_at_once_than_the_fleet_may() -> None:
    assert chunks_at_once(PipelineSettings(llm_chunks_inflight=4, max_llm_requests=3)) == 3
    assert chunks_at_once(PipelineSettings(llm_chunks_inflight=4)) == 4
