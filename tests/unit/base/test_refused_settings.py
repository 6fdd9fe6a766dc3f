"""Whatever a setting is set to, it is taken or refused by its name, in a few words, without a secret."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from pipeline.config import PipelineSettings
from queuemgr.base import redaction
from queuemgr.base.config import QueueSettings
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.settings_group import SettingsGroup
from queuemgr.models import LIMIT_FIELDS
from queuemgr.scheduling import limit_rows
from tests.unit.base.test_largest_settings import GROUPS

KEY = "sk-a-key-that-is-known-by-another-setting"
HUGE = 10**5000
DIGITS = "9" * 5000
LONGEST = 700
"""Characters of an error: the beginning of the value, what is wrong with it, and how it is written."""

HOSTILE = {
    "a huge number": HUGE,
    "a huge number below 0": -HUGE,
    "an object with one": {"a": HUGE},
    "a list with one": [HUGE],
    "an object within an object": {"m": {"input": HUGE, "output": 1}},
    "thousands of digits": DIGITS,
    "thousands of digits below 0": f"-{DIGITS}",
    "thousands of digits in JSON": json.dumps({"m": {"input": 1}}).replace("1", DIGITS),
    "a huge exponent": f"1e{DIGITS}",
    "a long text": "abc " * 5_000,
    "JSON nested deeply": "[" * 20_000,
    "the key of another setting": KEY,
    "a long text with it": "x" * 50 + KEY * 100,
    "an object with it": {"a": KEY},
    "JSON with it": json.dumps({"m": KEY, KEY: 1}),
    "an address with a password": "http://somebody:pass-of-an-address@a.org/" + "x" * 5000,
}


@pytest.fixture(autouse=True)
def no_secret_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a secret setting is set to here is masked in no other test."""
    monkeypatch.setattr(redaction, "_secrets", set())


@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("group", GROUPS)
def test_a_setting_is_taken_or_refused_by_its_name(
    group: type[SettingsGroup], value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_LLM_API_KEY", KEY)
    PipelineSettings.load()
    variables = [group.variable(name) for name in group.model_fields]
    said = refusal(group, dict.fromkeys(variables, value))
    refusals = re.split(f"; (?=(?:{'|'.join(variables)})[=:])", said) if said else []
    for each in refusals:
        assert each.startswith(tuple(variables)), each[:LONGEST]
        assert len(each) <= LONGEST, each[:LONGEST]
    assert KEY[:20] not in said and "pass-of" not in said and "conversion" not in said


def refusal(group: type[SettingsGroup], stated: dict[str, Any]) -> str:
    try:
        group.load(stated)
    except ConfigurationError as error:
        return str(error)
    return ""


def test_a_key_read_with_a_setting_shows_in_no_error_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_LLM_API_KEY", "sk-nobody-has-seen-this-one-yet")
    for setting in ("SLUICE_MODEL_PRICES", "SLUICE_HTTP_TIMEOUT", "SLUICE_RESOLVERS"):
        with pytest.raises(ConfigurationError) as refused:
            PipelineSettings.load({setting: "sk-nobody-has-seen-this-one-yet"})
        assert "nobody-has-seen" not in str(refused.value)


WRONG = {"huge": HUGE, "below 0": -HUGE, "digits": DIGITS, "an object": {"a": HUGE}, "a list": [HUGE]}


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("field", [*LIMIT_FIELDS, "limit itself"])
def test_a_limit_that_no_row_can_hold_is_refused_by_its_name(field: str, value: Any) -> None:
    stated = value if field == "limit itself" else {field: value}
    with pytest.raises(ConfigurationError, match="SLUICE_LIMITS: 'host:a'") as refused:
        limit_rows.of_the_setting(QueueSettings.load({"SLUICE_LIMITS": {"host:a": stated}}))
    assert len(str(refused.value)) <= LONGEST
    assert "conversion" not in str(refused.value)
