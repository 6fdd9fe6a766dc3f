"""Log records: as lines or JSON, naming their step, without secrets."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from unicodedata import category
from uuid import UUID

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from queuemgr.base import redaction
from queuemgr.base.redaction import MESSAGE_LIMIT, register_secret
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.log_context import about
from queuemgr.worker.log_format import AboutStep, JsonFormatter, LineFormatter, format_celerys_loggers

SECRET = "sk-never-to-be-shown"
LEASE = UUID(int=7)
GRANT = Grant(LEASE, 12, "papers", "arXiv:1", "prep", "fetch", 1, "", {"note": "payload"}, {})
Written = Callable[[], str]


@pytest.fixture(params=[LineFormatter, JsonFormatter])
def log(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A logger, and what it has written."""
    monkeypatch.setattr(redaction, "_secrets", set())
    register_secret(SECRET)
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(request.param())
    handler.addFilter(AboutStep())
    logger = logging.getLogger("tests.log_lines")
    logger.propagate = False
    logger.addHandler(handler)
    yield logger, written.getvalue
    logger.removeHandler(handler)


@pytest.fixture
def as_json(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    def written(record: logging.LogRecord) -> dict[str, Any]:
        AboutStep().filter(record)
        return dict(json.loads(JsonFormatter().format(record)))

    return written


def record(message: str, *args: object, **more: Any) -> logging.LogRecord:
    return logging.LogRecord("a.b", logging.INFO, "file", 1, message, args, more.get("exc_info"))


def test_log_lines_of_a_step_name_the_step_and_its_lease(as_json: Callable[..., Any]) -> None:
    with about(GRANT, "w1@host"):
        logged = as_json(record("read %d pages", 3))
        line = record("read")
        AboutStep().filter(line)
    assert logged["message"] == "read 3 pages"
    expected = {
        "execution": 12, "flow": "papers", "key": "arXiv:1", "phase": "prep", "step": "fetch",
        "lease": str(LEASE), "worker": "w1@host",
    }  # fmt: skip
    assert expected.items() <= logged.items()
    fields = "execution=12 flow=papers key=arXiv:1 phase=prep step=fetch"
    assert LineFormatter().format(line).endswith(f"read [{fields} lease={LEASE} worker=w1@host]")
    assert "payload" not in json.dumps(logged)


def test_log_lines_after_or_beside_a_step_do_not_name_it(as_json: Callable[..., Any]) -> None:
    async def both() -> list[dict[str, Any]]:
        async def inside() -> dict[str, Any]:
            with about(GRANT, "w"):
                await asyncio.sleep(0.01)
                return dict(as_json(record("in")))

        async def beside() -> dict[str, Any]:
            return dict(as_json(record("out")))

        return list(await asyncio.gather(inside(), beside()))

    inside, beside = asyncio.run(both())
    assert "execution" in inside
    assert "execution" not in beside
    assert set(as_json(record("after"))) == {"time", "level", "logger", "message"}


def test_a_traceback_is_in_the_one_line_of_its_record(as_json: Callable[..., Any]) -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        failed = record("failed", exc_info=(type(error), error, error.__traceback__))
    logged = as_json(failed)
    assert "ValueError: two\nlines" in logged["exception"]
    assert "\n" not in JsonFormatter().format(failed)


def test_records_inside_a_span_name_it(as_json: Callable[..., Any]) -> None:
    context = SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1))
    with use_span(NonRecordingSpan(context)):
        logged = as_json(record("here"))
    assert (logged["trace_id"], logged["span_id"]) == (f"{0xABC:032x}", f"{0xDEF:016x}")


def test_no_secret_is_logged_wherever_it_occurs(log: tuple[logging.Logger, Written]) -> None:
    """In the message, its arguments, a URL, a key, a traceback."""
    logger, written = log
    with about(Grant(LEASE, 1, "f", f"key-{SECRET}", "p", "s", 1, "", {}, {}), "w"):
        logger.warning(f"token {SECRET}")
        logger.warning("to %s", f"redis://:{SECRET}@host/0")
        logger.warning("to %s", "postgres://user:hunter22@host/db")
        try:
            raise RuntimeError(f"refused {SECRET}")
        except RuntimeError:
            logger.exception("failed with %s", {"key": SECRET})
    assert SECRET not in written()
    assert "hunter22" not in written()
    assert written().count("***") >= 8


def test_a_long_record_is_written_whole(as_json: Callable[..., Any]) -> None:
    assert as_json(record("x" * 3 * MESSAGE_LIMIT))["message"] == "x" * 3 * MESSAGE_LIMIT


FORGED = "2026-01-01 00:00:00,000 ERROR queuemgr.worker: forged"
PLACES = ("message", "argument", "logger", "key", "traceback", "note", "lines", "stack")


@cache
def hostile() -> str:
    """Every character that no line should have."""
    invisible = [chr(code) for code in range(0x110000) if category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")]
    return "".join([*invisible, "\ud800", "\udfff", "\ue000", "\U000e0041", "\uffff"])


def hostile_record(place: str, text: str) -> logging.LogRecord:
    """A record that has this text somewhere."""
    values = {name: text if name == place else name for name in PLACES}
    error = ValueError(values["traceback"])
    error.add_note(values["note"])
    made = logging.LogRecord(
        values["logger"], logging.INFO, "file", 1, values["message"] + " %s", (values["argument"],),
        (ValueError, error, None), sinfo=values["stack"],
    )  # fmt: skip
    made.lines = values["lines"]
    with about(Grant(LEASE, 1, "f", values["key"], "p", "s", 1, "", {}, {}), "w"):
        AboutStep().filter(made)
    return made


@pytest.mark.parametrize("place", PLACES)
def test_no_text_begins_a_line_of_its_own_or_controls_a_terminal(place: str) -> None:
    """Every line but the first is indented, and every character is one that is shown."""
    for text in (f"x\n{FORGED}", f"x\r{FORGED}", f"x\u2028{FORGED}", f"x\x85{FORGED}", hostile()):
        first, *below = LineFormatter().format(hostile_record(place, text)).split("\n")
        assert all(line.startswith("    ") for line in below)
        assert all(character.isprintable() for line in (first, *below) for character in line)
        assert not any(line.startswith(FORGED) for line in (first, *below))


@pytest.mark.parametrize("place", PLACES)
def test_a_record_as_json_is_one_line_of_what_is_shown(place: str) -> None:
    written = JsonFormatter().format(hostile_record(place, hostile()[:200] + "\u202e\u2028\ud800"))
    assert written.splitlines() == [written]
    assert not set(written) & set("\x1b\x9b\u202e\u2028\ud800")
    assert json.loads(written)


def test_what_is_shown_is_not_escaped() -> None:
    text = "Größe 東京\u3000a\xa0b C:\\n → ñ"
    assert LineFormatter().format(record(text.replace("%", ""))).endswith(f": {text}")


def test_the_loggers_that_celery_configures_write_as_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(LineFormatter())
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    for name in ("celery.task", "multiprocessing"):
        monkeypatch.setattr(logging.getLogger(name), "handlers", [logging.StreamHandler(io.StringIO())])
    format_celerys_loggers()
    for name in ("celery.task", "multiprocessing"):
        assert isinstance(logging.getLogger(name).handlers[0].formatter, LineFormatter)


def test_a_record_without_the_filter_is_written_too() -> None:
    """A handler that somebody else configured has our formatter, but not our filter."""
    assert json.loads(JsonFormatter().format(record("bare")))["message"] == "bare"
    assert LineFormatter().format(record("bare")).endswith("INFO a.b: bare")
