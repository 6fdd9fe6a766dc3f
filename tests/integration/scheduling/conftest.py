"""Fixtures of the tests of limits."""

from __future__ import annotations

import pytest

from queuemgr.scheduling import limit_rows


@pytest.fixture
def rows_of_limits(transactional_db: None) -> None:
    limit_rows.sync()
