"""Limits that settings state, over those of code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from queuemgr.base.errors import ConfigurationError
from queuemgr.flows import flow
from queuemgr.models import Limit
from queuemgr.operations import controls
from queuemgr.scheduling import limit_rows
from tests.integration.scheduling.limited_work import ANN

pytestmark = pytest.mark.django_db


def test_a_limit_in_settings_wins_over_the_same_in_code_field_by_field(
    configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stated = {"test:*": {"max_running": 9, "rate": "5/s"}, "other": {"max_running": 3}}
    monkeypatch.setattr(flow, "_flows", dict(flow._flows))
    flow.register_flow(replace(flow.get_flow("probe"), name="stating", limits=lambda: stated))
    configure(limits='{"test:*": 2, "openai": "50/m", "tenant:a": {"daily_budget": 7}}')
    limit_rows.sync()
    rows = {row.name: row for row in Limit.objects.all()}
    assert (rows["test:*"].max_running, rows["test:*"].rate) == (2, "5/s")
    assert (rows["other"].max_running, rows["openai"].rate, rows["tenant:a"].daily_budget) == (3, "50/m", 7)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "SLUICE_LIMITS='{': it is no JSON"),
        ("[1]", "SLUICE_LIMITS='[1]': it names no limits"),
        ('{"a": null}', "SLUICE_LIMITS: 'a' is stated as None"),
        ('{"a": {"most": 1}}', "SLUICE_LIMITS: 'a' with no such field: most"),
        ('{"a": "fast"}', "SLUICE_LIMITS: 'a' with "),
        ('{"a": -1}', "SLUICE_LIMITS: 'a' with "),
        (
            '{"a": {"daily_budget": 9, "allowances": "5 usd/day; 8 requests/day"}}',
            "the daily budget 9 and the allowance 8 requests/day say the same",
        ),
    ],
)
def test_a_limit_in_settings_that_cannot_be_is_refused_by_its_name(
    given: str, said: str, configure: Callable[..., None]
) -> None:
    configure(limits=given)
    with pytest.raises(ConfigurationError) as refused:
        limit_rows.sync()
    assert said in str(refused.value)


def test_what_is_stated_in_other_words_than_below_it_counts(
    configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fleet has a daily budget of the settings."""
    stated = {
        "fleet": {"allowances": "5 requests/day; 1 usd/day"},
        "test:*": {"rate": "5/s"},
        "other": {"allowances": "7 requests/day; 1 starts/3 seconds; 1 usd/day"},
    }
    monkeypatch.setattr(flow, "_flows", dict(flow._flows))
    flow.register_flow(replace(flow.get_flow("probe"), name="stating", limits=lambda: stated))
    configure(limits='{"test:*": {"allowances": "9 starts/second"}, "other": {"daily_budget": "9"}}')
    limit_rows.sync()
    rows = {row.name: row for row in Limit.objects.all()}
    assert rows["fleet"].daily_budget is None
    assert rows["test:*"].rate == ""
    assert (rows["other"].daily_budget, rows["other"].allowances) == (
        9, "1 starts/3 seconds; 1.00 usd/day",
    )  # fmt: skip


def test_settings_and_people_state_allowances_one_by_one_and_whoever_says_one_last_is_heard(
    configure: Callable[..., None],
) -> None:
    def state(**values: object) -> None:
        configure(limits=json.dumps({"model": values}))
        limit_rows.sync(as_newest=True)

    def row() -> Limit:
        return Limit.objects.get(name="model")

    state(allowances="5 usd/day; 9 tokens/minute", rate="5/s")
    controls.edit_limit("model", ANN, allowances="4 usd/day; 9 tokens/minute; 8 requests/day", new=True)
    state(allowances="5 usd/day; 7 tokens/minute", rate="5/s")
    assert row().allowances == "4.00 usd/day; 7 tokens/minute; 8 requests/day", "the person's stay"
    state(allowances="5 usd/day", rate="5/s", daily_budget=6)
    assert (row().allowances, row().daily_budget) == ("4.00 usd/day", 6)
    state(allowances="5 usd/day; 3 requests/day; 9 starts/second")
    assert (row().allowances, row().daily_budget, row().rate) == (
        "4.00 usd/day; 3 requests/day; 9 starts/second", None, "",
    )  # fmt: skip
    controls.edit_limit("model", ANN, allowances="3 requests/day", rate="2/s")
    state(allowances="5 usd/day; 3 requests/day; 8 starts/second")
    assert (row().allowances, row().rate) == ("3 requests/day; 8 starts/second", "")
