"""Metrics are read here without a token."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture(autouse=True)
def no_token_is_needed_here(configure: Callable[..., None]) -> None:
    configure(metrics_without_token="on")
