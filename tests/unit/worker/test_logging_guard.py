"""No logging call of a worker raises, whatever filters, handlers and factories do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from queuemgr.worker import logging_guard


def _raise(*args: object, **kwargs: object) -> bool:
    raise SystemExit("broken")


def _fail(*args: object, **kwargs: object) -> logging.LogRecord:
    raise RuntimeError("broken")


class Broken(logging.Handler):
    emit = _raise  # type: ignore[assignment]


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logging_guard.install()
    logger = logging.getLogger("of.a.test")
    logger.propagate = False
    yield logger
    logger.filters.clear()
    logger.handlers.clear()
    logging.setLogRecordFactory(logging.LogRecord)
    logging_guard.remove()


BREAKS: dict[str, Callable[[logging.Logger], object]] = {
    "a filter of the logger": lambda logger: logger.addFilter(_raise),
    "a handler": lambda logger: logger.addHandler(Broken()),
    "the lock of a handler": lambda logger: logger.addHandler(_locked()),
}


def _locked() -> logging.Handler:
    handler = logging.NullHandler()
    handler.handle = _raise  # type: ignore[method-assign]
    return handler


@pytest.mark.parametrize("what", BREAKS)
def test_what_could_not_be_logged_is_a_line_on_the_standard_error(
    logger: logging.Logger, what: str, capfd: pytest.CaptureFixture[str]
) -> None:
    BREAKS[what](logger)
    logger.error("lease %s ended", 7)
    assert capfd.readouterr().err == "ERROR of.a.test: lease 7 ended (not logged: SystemExit: broken)\n"


def test_a_factory_of_records_that_raises_is_done_without(logger: logging.Logger) -> None:
    said: list[str] = []
    handler = logging.NullHandler()
    handler.handle = lambda record: said.append(record.getMessage())  # type: ignore[method-assign,assignment,func-returns-value]
    logger.addHandler(handler)
    logging.setLogRecordFactory(_fail)
    logger.error("lease %s ended", 7)
    assert said == ["lease 7 ended"]
