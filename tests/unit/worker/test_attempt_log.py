"""The last lines that a step logged: bounded, masked, escaped, and those of its own context only."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from queuemgr.base.redaction import register_secret
from queuemgr.flows.outcomes import Done, Failed, Interrupted, Skipped
from queuemgr.lifecycle import log_context
from queuemgr.lifecycle.leases import Grant
from queuemgr.lifecycle.log_context import LogLine
from queuemgr.scheduling.phase_settings import TimeLimits
from queuemgr.worker import attempt_log
from queuemgr.worker.group_commit import GroupCommitter
from queuemgr.worker.running_steps import RunningStep
from tests.unit.worker.test_log_format import hostile

GRANT = Grant(UUID(int=7), 1, "f", "k", "p", "s", 1, "", {}, {})
FAILED = Failed("timeout", "it took too long")
logger = logging.getLogger("tests.of.a.step")


@pytest.fixture(autouse=True)
def _noted() -> Iterator[None]:
    attempt_log.install()
    level, logger.level = logger.level, logging.DEBUG
    yield
    logger.setLevel(level)
    attempt_log.remove()


def logged(*messages: str) -> str:
    with log_context.about(GRANT, "w"):
        for message in messages:
            logger.info("%s", message)
        return attempt_log.text_for(FAILED)


def test_what_a_step_logged_is_kept_in_order_with_time_level_and_logger() -> None:
    with log_context.about(GRANT, "w"):
        logger.debug("too much")
        logger.info("asking %s", "them")
        logger.warning("no answer", exc_info=(KeyError, KeyError("x"), None))
        first, second = attempt_log.text_for(FAILED).split("\n")
    assert first.endswith(" UTC INFO tests.of.a.step: asking them")
    assert second.endswith(" UTC WARNING tests.of.a.step: no answer (KeyError)")


@pytest.mark.parametrize("result", [Done(), Skipped("x"), Interrupted("x")])
def test_nothing_is_made_of_it_for_a_step_that_did_not_fail(result: Done | Skipped | Interrupted) -> None:
    with log_context.about(GRANT, "w"):
        logger.info("asking")
        assert attempt_log.text_for(result) == ""


def test_a_result_whose_store_may_fail_keeps_what_its_step_logged() -> None:
    with log_context.about(GRANT, "w"):
        logger.info("asking")
        assert attempt_log.text_for(Done(store=lambda: None)).endswith(": asking")


def test_a_step_that_another_thread_ends_for_its_time_limit_keeps_what_it_logged() -> None:
    with log_context.about(GRANT, "w"):
        step = RunningStep(GRANT, TimeLimits(1, 1))
        logger.info("asking")
    committer: Any = SimpleNamespace(finish=lambda grant, ending, ran, wants_next: ending)
    ending: Any = GroupCommitter.end(committer, step, FAILED)
    assert ending.log.endswith(": asking")


def test_what_another_program_put_in_its_place_is_called_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracer patches the same method, before or after a worker starts."""
    attempt_log.remove()
    plain, called = logging.Logger.callHandlers, list[str]()

    def tracer(name: str, of: Any, log: logging.Logger, record: logging.LogRecord) -> None:
        called.append(name)
        of(log, record)

    def put(name: str) -> Any:
        wrapped = partial(tracer, name, logging.Logger.callHandlers)
        method = lambda log, record: wrapped(log, record)  # noqa: E731  # a method, which a partial is not
        monkeypatch.setattr(logging.Logger, "callHandlers", method)
        return method

    before = put("before")
    attempt_log.install()
    noting = logging.Logger.callHandlers
    after = put("after")
    attempt_log.install()
    assert logged("asking").endswith(": asking")
    assert called == ["after", "before"]
    attempt_log.remove()
    assert logging.Logger.callHandlers is after
    monkeypatch.setattr(logging.Logger, "callHandlers", noting)
    attempt_log.remove()
    assert logging.Logger.callHandlers is before
    monkeypatch.setattr(logging.Logger, "callHandlers", plain)
    attempt_log.install()


def test_lines_of_other_steps_and_of_no_step_are_not_in_it() -> None:
    logger.info("of no step")
    with ThreadPoolExecutor(2) as threads:
        texts = [*threads.map(logged, ["one", "two"])]
    assert [text.rpartition(" ")[2] for text in texts] == ["one", "two"]
    assert attempt_log.text_for(FAILED) == ""


def test_only_the_last_lines_are_kept_and_no_more_than_a_row_should_hold() -> None:
    assert logged(*map(str, range(300))).splitlines()[0].endswith(": 250")
    text = logged(*("x" * 100_000 for _ in range(300)))
    assert len(text) <= attempt_log.MOST_CHARACTERS
    assert all(len(line) <= 2 * attempt_log.MOST_OF_A_LINE for line in text.splitlines())


@pytest.mark.parametrize("before", [0, 100, 480, 3_980, 3_999, 100_000])
def test_no_part_of_a_secret_is_kept_wherever_a_message_is_cut(before: int) -> None:
    register_secret("hunter2-of-this-step")
    text = logged("y" * before + "hunter2-of-this-step" * 300)
    assert "hunter" not in text
    assert "sig=abc" not in logged("see https://a.example/b?sig=abc")


def test_no_text_begins_a_line_of_its_own_or_controls_a_terminal() -> None:
    (line,) = logged(f"x\n2026-01-01 00:00:00 UTC ERROR forged{hostile()[:400]}").split("\n")
    assert all(character.isprintable() for character in line)
    text = attempt_log.text_of([LogLine(0.0, "INFO", "a\nb" * 200, "m")])
    assert "\n" not in text and text.startswith("1970-01-01 00:00:00.000 UTC INFO ")


class _Unprintable:
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("arguments", [("%d", "x"), ("%s %s", 1), ("%s", _Unprintable()), (_Unprintable(),)])
def test_a_record_that_cannot_be_formatted_fails_no_step(
    arguments: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    with log_context.about(GRANT, "w"):
        logger.info(*arguments)
        assert "a message that cannot be formatted: " in attempt_log.text_for(FAILED)
