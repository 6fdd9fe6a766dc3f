"""Remedies name the settings that a project has, whatever the reference application calls its own."""

from __future__ import annotations

import pytest
from django.test import override_settings

from queuemgr.base import unreachable
from queuemgr.base.setting_names import as_named_here
from queuemgr.local import broker_problems
from queuemgr.reporting.periodic_jobs import start_beat

REMEDIES = [
    *unreachable.REMEDIES.values(), *broker_problems.REMEDIES.values(), broker_problems.START,
    broker_problems.START_TLS, broker_problems.RIGHT,
]  # fmt: skip
OF_NO_APPLICATION = override_settings(
    SLUICE_DATABASE_VARIABLE="", SLUICE_BROKER_VARIABLE="", SLUICE_CELERY_APP="shop"
)


@pytest.mark.parametrize("remedy", REMEDIES)
def test_a_remedy_names_settings_that_the_project_has(remedy: str) -> None:
    assert as_named_here(remedy) == remedy, "the reference application has these variables"
    with OF_NO_APPLICATION:
        named = as_named_here(remedy)
    assert "private" not in named
    assert "DATABASE_URL" not in named
    assert "BROKER_URL" not in named.replace("CELERY_BROKER_URL", "")


def test_beat_is_started_for_the_application_of_the_project() -> None:
    assert "`celery -A project beat`" in start_beat()
    with OF_NO_APPLICATION:
        assert "`celery -A shop beat`" in start_beat()
