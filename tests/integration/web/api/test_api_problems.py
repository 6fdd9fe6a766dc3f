"""Whatever goes wrong below /api/ is a problem (RFC 9457), and reveals no secret."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from queuemgr.reporting import stats
from queuemgr.web.api.json_body import MAX_DEPTH
from queuemgr.web.api.problems import TITLES
from tests.compose_file import ROOT
from tests.integration.web.api.api_client import Api, api, problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]


@pytest.fixture
def caller() -> Api:
    return api()


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b"", "invalid"),
        (b"{", "unreadable"),
        (b"\xff", "unreadable"),
        (b'{"key": "a" "b"}', "unreadable"),
        (b"[]", "invalid"),
        (b'"text"', "invalid"),
        (b"null", "invalid"),
        (b'{"flow": "probe", "key": "\\ud800"}', "invalid"),
        (b'{"flow": "probe", "key": "a", "payload": {"\\u0000": 1}}', "invalid"),
        (b'{"flow": "probe", "key": "a", "payload": {"seconds": NaN}}', "invalid"),
        (b'{"flow": "probe", "key": "a", "payload": {"seconds": 1e999}}', "invalid"),
        (b'{"flow": "probe", "key": "a", "payload": {"requests": 1' + b"0" * 5000 + b"}}", "invalid"),
        (b'{"flow": "probe", "key": "a", "payload": {"requests": 9223372036854775808}}', "invalid"),
        (b'{"flow": "probe", "key": "a", "payload": ' + b'{"a":' * 2000 + b"1" + b"}" * 2001, "invalid"),
        (b"[" * 100_000, "invalid"),
    ],
)  # fmt: skip
def test_hostile_json_is_refused_and_never_reaches_a_database(caller: Api, body: bytes, name: str) -> None:
    response = caller.raw("executions", body)
    if body.startswith(b"[["):  # how deep Python reads differs by version: either is a refusal
        assert response.status_code in (400, 422)
    else:
        problem(response, name)


@pytest.mark.parametrize("number", [b"NaN", b"-Infinity", b"1e999", b"1" + b"0" * 5000])
def test_a_number_that_cannot_be_stored_is_refused_in_plain_words(caller: Api, number: bytes) -> None:
    response = caller.raw("executions", b'{"key": "a", "payload": {"seconds": ' + number + b"}}")
    detail = "a number is NaN, infinite, or too large to be stored"
    assert problem(response, "invalid")["detail"] == detail


def test_json_may_be_nested_up_to_the_documented_depth(caller: Api) -> None:
    body = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert "deeper" not in problem(caller.raw("executions", body), "invalid")["detail"]
    assert "deeper" in problem(caller.raw("executions", b"[" + body + b"]"), "invalid")["detail"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "text/json", ""])
def test_a_body_without_the_json_content_type_is_415(caller: Api, kind: str) -> None:
    problem(caller.raw("executions", b'{"flow": "probe", "key": "a"}', kind), "not-json")


def test_a_body_beyond_the_limit_is_413(caller: Api, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    problem(caller.raw("executions", b" " * 1001), "too-large")


def test_unknown_paths_and_methods_are_problems_too(caller: Api) -> None:
    problem(caller.get("nothing/here"), "not-found")
    refused = caller.patch("stats", {})
    problem(refused, "method-not-allowed")
    assert refused["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["stats", "executions", "openapi.json"])
def test_head_answers_what_get_does_without_its_body(caller: Api, path: str) -> None:
    whole, head = caller.get(path), caller.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert {name: head[name] for name in ("Content-Type", "Content-Length")} == {
        "Content-Type": whole["Content-Type"], "Content-Length": str(len(whole.content)),
    }  # fmt: skip


def test_head_needs_the_scope_of_get_and_works_on_no_other_route(caller: Api) -> None:
    assert Client().head("/api/v1/stats").status_code == 401
    assert api("limits", name="narrow").head("stats").status_code == 403
    assert caller.head("executions/1/retry").status_code == 405
    nowhere = caller.head("nothing/here")
    assert (nowhere.status_code, nowhere.content) == (404, b"")


def test_pages_for_people_keep_their_own_errors() -> None:
    response = Client(raise_request_exception=False).get("/nothing/here")
    assert response["Content-Type"].startswith("text/html")


def test_every_invalid_member_is_reported_by_its_path(caller: Api) -> None:
    body = problem(caller.post("executions", {"flow": 1, "priority": "x"}), "invalid")
    places = {error["where"] for error in body["errors"]}
    assert places == {"body.given.flow", "body.given.priority"}


def test_an_internal_error_reveals_no_details(caller: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """No message, no traceback, no setting of ours."""

    def broken() -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(stats, "stats", broken)
    response = caller.get("stats")
    problem(response, "internal")
    assert b"hunter2" not in response.content
    assert b"Traceback" not in response.content


def test_an_unavailable_database_is_503_with_retry_after(
    caller: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise OperationalError("connection to postgres://user:hunter2@db failed")

    monkeypatch.setattr(stats, "stats", away)
    response = caller.get("stats")
    problem(response, "database-away")
    assert response["Retry-After"] == "5"
    assert b"hunter2" not in response.content


def test_every_type_of_problem_has_its_anchor_in_the_page_its_uri_names() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    headings = {line.lstrip("# ").strip() for line in page.splitlines() if line.startswith("###")}
    assert set(TITLES) <= headings
