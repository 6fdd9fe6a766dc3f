"""Payloads people type, and what of them is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base.errors import BadInput
from queuemgr.base.redaction import masked
from queuemgr.flows import payload_validation

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_a_payload_is_parsed_as_it_was_written(payload: dict[str, Any]) -> None:
    assert payload_validation.parse(json.dumps(payload)) == payload


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example/p.pdf?sig=1",
        "see https://a.example/p.pdf?sig=1#x, and HTTPS://B.example?k=2",
        "https://ann:hidden@a.example/",
        "https://a.example/#token=3",
    ],
)
def test_a_masked_value_left_as_shown_is_restored(url: str) -> None:
    before = {"url": url, url: [url, {"deep": url}], "n": 1}
    shown = masked(before)
    assert not any(secret in json.dumps(shown) for secret in ("sig=1", "k=2", "hidden", "token=3"))
    assert payload_validation.restore_masked(shown, before) == before
    assert payload_validation.restore_masked({**shown, "n": 2}, before) == {**before, "n": 2}


def test_a_mask_where_no_masked_value_was_is_refused() -> None:
    before = {"url": "https://a.example/p.pdf?sig=1"}
    with pytest.raises(BadInput, match="holds a mask"):
        payload_validation.restore_masked({"other": masked(before)["url"]}, before)


def test_a_url_without_a_query_is_shown_whole() -> None:
    assert masked("at https://a.example/x/y.pdf, is it?") == "at https://a.example/x/y.pdf, is it?"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1, column 1"),
        ("[" * 5_000, "nested too deeply|line 1"),
        ('{"n": ' + "9" * 5_000 + "}", "a number of thousands of digits"),
        ('{"n": 1e999}', "NaN and Infinity"),
        ("null", "not null"),
        ("3", "not a number"),
        ("x" * 200_000, "characters"),
    ],
)
def test_an_invalid_payload_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        payload_validation.parse(text)
