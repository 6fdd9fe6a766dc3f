"""What services say is left of their limits: as each documents it, and as none should."""

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuemgr.steptools.rate_limit_headers import (
    LONGEST_RESET,
    MOST,
    MOST_HEADERS,
    UNKNOWN_RESET,
    Remaining,
    ResponseLimits,
    response_limits,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
EPOCH = int(NOW.timestamp())


def read(headers: Any) -> ResponseLimits:
    return response_limits(headers, NOW)


SERVICES: dict[str, tuple[dict[str, str], dict[str, Remaining]]] = {
    "OpenAI, Groq": (
        {
            "x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59",
            "x-ratelimit-reset-requests": "1s", "x-ratelimit-limit-tokens": "150000",
            "x-ratelimit-remaining-tokens": "149984", "x-ratelimit-reset-tokens": "6m0s",
        },
        {"requests": Remaining(59, 1.0, 60), "tokens": Remaining(149984, 360.0, 150000)},
    ),
    "Azure, without resets": (
        {"x-ratelimit-remaining-requests": "9", "x-ratelimit-remaining-tokens": "1200"},
        {"requests": Remaining(9, UNKNOWN_RESET), "tokens": Remaining(1200, UNKNOWN_RESET)},
    ),
    "Anthropic": (
        {
            "anthropic-ratelimit-requests-limit": "50", "anthropic-ratelimit-requests-remaining": "49",
            "anthropic-ratelimit-requests-reset": "2026-03-01T12:00:01Z",
            "anthropic-ratelimit-input-tokens-remaining": "9000",
            "anthropic-ratelimit-input-tokens-reset": "2026-03-01T12:00:30Z",
            "anthropic-ratelimit-output-tokens-remaining": "800",
            "anthropic-ratelimit-output-tokens-reset": "2026-03-01T12:01:00+00:00",
        },
        {
            "requests": Remaining(49, 1.0, 50), "input_tokens": Remaining(9000, 30.0),
            "output_tokens": Remaining(800, 60.0),
        },
    ),
    "Mistral": (
        {
            "x-ratelimitbysize-remaining-minute": "499900", "x-ratelimitbysize-limit-minute": "500000",
            "x-ratelimitbysize-remaining-month": "999999900", "ratelimitbysize-reset": "28",
        },
        {"tokens": Remaining(499900, 28.0, 500000)},
    ),
    "Cerebras: of a minute and a day the one with less": (
        {
            "x-ratelimit-remaining-tokens-minute": "60000", "x-ratelimit-reset-tokens-minute": "11.38",
            "x-ratelimit-remaining-requests-day": "12", "x-ratelimit-reset-requests-day": "33011.4",
            "x-ratelimit-remaining-requests-minute": "30", "x-ratelimit-limit-requests-day": "14400",
        },
        {"tokens": Remaining(60000, 11.38), "requests": Remaining(12, 33011.4, 14400)},
    ),
    "GitHub": (
        {"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "56", "X-RateLimit-Reset": str(EPOCH + 90)},
        {"requests": Remaining(56, 90.0, 60)},
    ),
    "OpenRouter": (
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{EPOCH + 30}000"},
        {"requests": Remaining(0, 30.0)},
    ),
    "the IETF's first draft": (
        {"RateLimit-Limit": "100, 100;w=60", "RateLimit-Remaining": "5", "RateLimit-Reset": "50"},
        {"requests": Remaining(5, 50.0)},
    ),
    "the IETF's draft": (
        {
            "RateLimit-Policy": '"a";q=100;w=60, "b";q=9000;w=3600;qu="tokens"',
            "RateLimit": '"a";r=95;t=25, "b";r=7',
        },
        {"requests": Remaining(95, 25.0, 100), "tokens": Remaining(7, 3600.0, 9000)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("service", SERVICES)
def test_what_each_service_says_is_read(service: str) -> None:
    headers, said = SERVICES[service]
    assert read(headers).by_meter == said


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0), ("6m0s", 360.0), ("120ms", 0.12), ("2m59.5s", 179.5), ("1h2m3s", 3723.0), ("17", 17.0),
        ("0.25", 0.25), ("2026-03-01T12:00:09+00:00", 9.0), ("2026-03-01T13:00:09.5+01:00", 9.5),
        ("Sun, 01 Mar 2026 12:01:00 GMT", 60.0), (str(EPOCH + 5), 5.0), (f"{EPOCH + 5}500", 5.5),
    ],
)  # fmt: skip
def test_a_reset_is_read_in_every_form(text: str, seconds: float) -> None:
    left = read({"x-ratelimit-remaining-tokens": "7", "x-ratelimit-reset-tokens": text}).by_meter["tokens"]
    assert left == Remaining(7, pytest.approx(seconds))


@pytest.mark.parametrize(
    "text", ["", "-5", "nan", "inf", "1e400", "9" * 400, "9999-12-31T23:59:59Z", "6 minutes", "٣s", "1s" * 90]
)
def test_a_reset_that_cannot_be_holds_for_a_minute(text: str) -> None:
    left = read({"x-ratelimit-remaining-tokens": "7", "x-ratelimit-reset-tokens": text}).by_meter["tokens"]
    assert left.resets_in == UNKNOWN_RESET


@pytest.mark.parametrize(
    "text", ["", "-1", "nan", "1e400", "NaN", "0x10", "٣", "7, 8", "9" * 17, "unlimited"]
)
def test_an_amount_that_cannot_be_says_nothing(text: str) -> None:
    assert read({"x-ratelimit-remaining-tokens": text}).by_meter == {}


def test_what_has_been_reset_meanwhile_says_nothing() -> None:
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(EPOCH - 1)}
    assert read(headers).by_meter == {}


def test_dates_count_by_the_clock_of_the_server() -> None:
    """Ours may differ by an hour."""
    headers = {"Date": "Sun, 01 Mar 2026 11:00:00 GMT", "Retry-After": "Sun, 01 Mar 2026 11:00:09 GMT"}
    headers |= {"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": str(EPOCH - 3600 + 12)}
    assert read(headers) == ResponseLimits({"requests": Remaining(3, 12.0)}, 9.0)


@pytest.mark.parametrize("name", ["retry-after-ms", "x-ms-retry-after-ms"])
def test_a_wait_in_milliseconds_is_more_exact_than_one_in_seconds(name: str) -> None:
    assert read({name: "1500", "retry-after": "2"}).retry_after == 1.5
    assert read({name: "soon", "retry-after": "2"}).retry_after == 2.0
    assert read({name: "9" * 15, "retry-after": "2"}).retry_after == 2.0


@pytest.mark.parametrize(
    "of",
    [
        dict,
        httpx.Headers,
        lambda h: list(h.items()),
        lambda h: [(k.encode(), v.encode()) for k, v in h.items()],
    ],
)
def test_headers_of_every_client_are_read(of: Any) -> None:
    headers = {"X-RateLimit-Remaining-Tokens": "7", "X-RateLimit-Reset-Tokens": "2s"}
    assert read(of(headers)).by_meter == {"tokens": Remaining(7, 2.0)}


def test_no_more_headers_are_looked_at_than_a_response_has() -> None:
    headers = {f"x-{number}": "1" for number in range(MOST_HEADERS)} | {"x-ratelimit-remaining": "1"}
    assert read(headers).by_meter == {}


NAMES = st.sampled_from(
    [
        f"{prefix}{words}"
        for prefix in ("x-ratelimit-", "anthropic-ratelimit-", "ratelimit-", "x-ratelimitbysize-")
        for words in (
            "limit",
            "remaining",
            "reset",
            "remaining-tokens",
            "tokens-reset",
            "remaining-tokens-day",
        )
    ]
    + ["ratelimit", "ratelimit-policy", "date", "retry-after", "retry-after-ms"]
)
VALUES = st.one_of(
    st.text(max_size=30), st.integers().map(str), st.floats().map(str),
    st.datetimes().map(lambda moment: f"{moment.isoformat()}Z"),
    st.from_regex(r'"a";r=[0-9]{1,20};t=[0-9]{1,20}', fullmatch=True),
)  # fmt: skip


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_whatever_headers_say_every_number_is_in_bounds(headers: dict[str, str]) -> None:
    said = read(headers)
    for left in said.by_meter.values():
        assert 0 <= left.remaining <= MOST
        assert 0 < left.resets_in <= LONGEST_RESET
        assert left.limit is None or 0 <= left.limit <= MOST
    assert said.retry_after is None or 0 <= said.retry_after <= 366 * 86_400
