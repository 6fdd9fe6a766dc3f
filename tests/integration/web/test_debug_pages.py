"""Reports of exceptions quote frames, settings, requests and the environment, and no secret of them."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import RequestFactory
from django.views.debug import get_exception_reporter_class, get_exception_reporter_filter

from queuemgr.base import redaction
from queuemgr.base.redaction import register_secret

MARKS = ("marked-plain-secret", "marked & <html> secret", "marked 'quoted\" secret")


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError(f"not even {MARKS[0]}")


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_secrets", set())
    for mark in MARKS:
        register_secret(mark)


def _failed() -> Any:
    """A request that failed, with secrets in every place a report shows."""
    kept = {"deep": [SimpleNamespace(of_a_step=mark) for mark in MARKS], "raw": b"marked-plain-secret"}
    plain, long, broken = MARKS[0], f"{'x' * 4080}{MARKS[0]}", Unprintable()
    try:
        raise RuntimeError(f"the service answered {MARKS[1]} to {MARKS[2]}")
    except RuntimeError:
        assert kept and plain and long and broken
        return sys.exc_info()


@pytest.mark.parametrize("as_page", [True, False], ids=["page", "text"])
@pytest.mark.parametrize("debug", [True, False])
def test_no_secret_is_in_a_report_of_an_exception(as_page: bool, debug: bool, settings: Any) -> None:
    settings.DEBUG = debug
    settings.SOMETHING_OF_AN_APPLICATION = {"address": f"x://{MARKS[0]}/", "names": [MARKS[1]]}
    request = RequestFactory().post(f"/a/?q={MARKS[0]}", {"note": [MARKS[1], MARKS[2]], MARKS[0]: "name"})
    request.META["SOMETHING"] = MARKS[2]
    request.COOKIES["note"] = MARKS[0]
    reporter = get_exception_reporter_class(request)(request, *_failed())
    report = reporter.get_traceback_html() if as_page else reporter.get_traceback_text()
    assert "the service answered" in report
    for mark in MARKS:
        assert mark not in report
    assert "marked-plain" not in report  # not the half of one that was cut off
    assert "quoted" not in report.replace("test_debug_pages", "")


def test_safe_settings_hold_no_secret_under_any_name(settings: Any) -> None:
    settings.SOMETHING_OF_AN_APPLICATION = {"address": MARKS[0], "things": (MARKS[1], {MARKS[2]})}
    settings.ANOTHER = SimpleNamespace(field=MARKS[0])
    shown = str(get_exception_reporter_filter(None).get_safe_settings())
    assert "SOMETHING_OF_AN_APPLICATION" in shown
    assert not any(mark in shown or repr(mark)[1:-1] in shown for mark in MARKS)
