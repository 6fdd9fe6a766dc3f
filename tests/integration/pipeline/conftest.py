"""Fixtures for the tests of the papers pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import pipeline_settings
from queuemgr.models import Limit
from tests.integration.pipeline.papers_fixtures import Papers, Site


@pytest.fixture(autouse=True)
def _folders(settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path / "files"
    settings.SLUICE_SCRATCH = tmp_path / "scratch"
    settings.SLUICE_INBOX = tmp_path / "inbox"


@pytest.fixture
def set_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Set settings of the pipeline for one test."""

    def set_them(**values: object) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"SLUICE_{name.upper()}", str(value))
        pipeline_settings.cache_clear()

    yield set_them
    pipeline_settings.cache_clear()


@pytest.fixture
def site(set_settings: Callable[..., None]) -> Iterator[Site]:
    """The site, with permission to fetch from it."""
    made = Site()
    set_settings(allow_private_addresses=True, crossref_url=made.url, arxiv_url=made.url)
    yield made
    made.close()


@pytest.fixture
def model(site: Site, set_settings: Callable[..., None]) -> Site:
    """The site as the language model papers are analysed by."""
    set_settings(llm_base_url=f"{site.url}/v1", llm_model="m-1", llm_api_key="sk-for-this-test")
    return site


@pytest.fixture
def papers(played: Callable[..., Any], settings: Any) -> Papers:
    worker = played(slots=4)
    # The site stands for arXiv too, whose rate would have these tests wait for seconds.
    Limit.objects.filter(name__startswith="resolver:").update(rate="", max_running=4)
    return Papers(worker, Path(settings.MEDIA_ROOT))
