"""Limits of a task name keys by its arguments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.base.errors import ConfigurationError
from queuemgr.scheduling import claims
from queuemgr.tasks.limit_templates import parse_template, values_of

PARAMETERS = ("host", "tenant")


@pytest.mark.parametrize(
    ("text", "key", "pattern"),
    [
        ("host:{host}", "host:a.example", "host:*"),
        ("mail", "mail", "mail"),
        ("of:{tenant}:{host}", "of:acme:a.example", "of:*"),
        ("braces:{{{host}}}", "braces:{a.example}", "braces:{*"),
    ],
)
def test_a_template_names_the_key_of_a_call_and_the_limit_of_all_keys(
    text: str, key: str, pattern: str
) -> None:
    template = parse_template("shop.send", text, PARAMETERS)
    assert template.fill({"host": "a.example", "tenant": "acme"}) == key
    assert template.pattern == pattern


@given(st.text(max_size=60))
def test_whatever_an_argument_is_its_key_is_one(value: str) -> None:
    """White space would make two of it; what no row can hold is refused by name when it is enqueued."""
    key = parse_template("shop.send", "host:{host}", PARAMETERS).fill({"host": value})
    assert len(key.split()) == 1
    assert key == key.strip()
    if value.isprintable() and " " not in value:
        assert key == f"host:{value}"


@given(st.text(max_size=20), st.text(max_size=20))
def test_two_arguments_have_two_keys(one: str, other: str) -> None:
    template = parse_template("shop.send", "host:{host}", PARAMETERS)
    escaped = "%" in one + other
    assert escaped or (template.fill({"host": one}) == template.fill({"host": other})) == (one == other)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("host:{hots}", "names 'hots'; its parameters: host, tenant"),
        ("host:{}", "names ''; its parameters"),
        ("host:{host!r}", "names 'host'"),
        ("host:{host:>9}", "names 'host'"),
        ("host:{host.name}", "names 'host.name'"),
        ("host:{host", "braces that do not match"),
        ("{host}", "must begin with a word of its own"),
        ("", "must begin with a word of its own"),
    ],
)
def test_a_template_that_cannot_work_is_refused_when_the_task_is_declared(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^shop\.send: limit ") as refused:
        parse_template("shop.send", text, PARAMETERS)
    assert said in str(refused.value)


def test_what_a_limit_allows_is_a_number_a_rate_or_fields() -> None:
    stated: dict[str, Any] = {"a": 2, "b": "50/m", "c": {"daily_budget": 9}}
    assert values_of("shop.send", stated) == {
        "a": {"max_running": 2}, "b": {"rate": "50/m"}, "c": {"daily_budget": 9},
    }  # fmt: skip
    assert values_of("shop.send", ["a"]) == {"a": {}}


@pytest.mark.parametrize("stated", ["host:{host}", {"a": True}, {"a": 1.5}, {"a": None}])
def test_what_a_limit_allows_is_refused_where_it_is_none_of_these(stated: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^shop\.send: limit"):
        values_of("shop.send", stated)


def test_keys_of_a_template_are_keys_of_a_step() -> None:
    template = parse_template("shop.send", "host:{host}", PARAMETERS)
    assert claims.as_text([template.fill({"host": "a b\tc\u2028d"})]) == "host:a%20b%09c%E2%80%A8d"
