"""Who may use the API: tokens, scopes, permissions, rates; and what a session may do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from queuemgr.base.errors import BadInput
from queuemgr.base.scheduler_lock import database_now
from queuemgr.models import ApiToken, AuditEntry, Execution
from queuemgr.operations import api_tokens
from tests.integration.web.api.api_client import ANN, Api, api, make_token, problem, someone

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]

needs_two_connections = pytest.mark.only_on("postgres", why="needs two connections")


def test_a_token_is_kept_as_a_digest_only_and_its_making_is_recorded_without_it() -> None:
    token, secret = make_token("read")
    kept = " ".join(str(value) for value in ApiToken.objects.values().get().values())
    record = AuditEntry.objects.get(action="make token")
    assert secret not in kept
    assert (record.target, record.after["scopes"]) == (token.name, ["read"])
    assert secret not in str(record.after)
    assert token.digest not in str(record.after)


def test_without_a_token_the_answer_is_401_and_says_how_to_authenticate() -> None:
    response = Client().get("/api/v1/stats")
    problem(response, "no-valid-token")
    assert response["WWW-Authenticate"] == 'Bearer realm="sluicegate"'


@pytest.mark.parametrize("secret", ["", "x", "sluice_" + "A" * 43, "\x7f", "a b", "é"])
def test_an_unknown_token_is_401(secret: str) -> None:
    response = Api(secret).get("stats")
    problem(response, "no-valid-token")
    assert "WWW-Authenticate" in response


def test_revoked_expired_and_inactive_owners_tokens_are_refused() -> None:
    caller, (token, secret) = api(name="gone"), make_token(name="late")
    assert caller.get("executions").status_code == 200
    assert api_tokens.revoke(ApiToken.objects.filter(name="gone"), ANN) == ["gone"]
    assert "revoked" in problem(caller.get("executions"), "no-valid-token")["detail"]
    ApiToken.objects.filter(pk=token.pk).update(expires_at=database_now() - timedelta(seconds=1))
    assert "expired" in problem(Api(secret).get("executions"), "no-valid-token")["detail"]
    ApiToken.objects.filter(pk=token.pk).update(expires_at=None)
    User.objects.filter(pk=token.owner_id).update(is_active=False)
    assert "not active" in problem(Api(secret).get("executions"), "no-valid-token")["detail"]


def test_revoking_twice_is_recorded_once() -> None:
    make_token()
    for _ in range(2):
        api_tokens.revoke(ApiToken.objects.all(), ANN)
    assert AuditEntry.objects.filter(action="revoke token").count() == 1


def test_a_token_without_the_scope_is_refused_by_its_name_before_the_body_is_read() -> None:
    body = problem(api("read").raw("executions", b"{not json"), "scope-missing")
    assert body["scope"] == "enqueue"


def test_a_scope_grants_nothing_its_owner_may_not_do() -> None:
    caller = api(permissions=["view_execution"])
    found = problem(caller.post("executions", {"flow": "probe", "key": "a"}), "permission-missing")
    assert found["permission"] == "queuemgr.add_execution"
    assert not Execution.objects.exists()


@pytest.mark.parametrize(
    ("name", "scopes", "given", "message"),
    [
        ("", ["read"], {}, "name"),
        ("a\nb", ["read"], {}, "printable"),
        ("a", [], {}, "scopes none"),
        ("a", ["root"], {}, "scopes root"),
        ("a", ["read"], {"rate": "often"}, "often"),
        ("a", ["read"], {"expires_at": database_now}, "never be used"),
        ("taken", ["read"], {}, "already exists"),
    ],
)
def test_an_invalid_token_cannot_be_created_and_the_reason_is_given(
    name: str, scopes: list[str], given: dict[str, Any], message: str
) -> None:
    make_token(name="taken")
    values = {key: value() if callable(value) else value for key, value in given.items()}
    with pytest.raises(BadInput, match=message):
        api_tokens.make(name, someone(), scopes, ANN, **values)


def test_a_rate_allows_its_burst_at_once_and_then_answers_with_retry_after() -> None:
    caller = api(rate="3/hour")
    statuses = [caller.get("executions").status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    refused = caller.get("executions")
    body = problem(refused, "too-many-requests")
    assert 1100 < int(refused["Retry-After"]) <= 1200
    assert body["retry_after_seconds"] <= 1200


def test_refused_requests_do_not_count_against_the_rate() -> None:
    caller = api(rate="1/hour")
    caller.get("executions")
    before = ApiToken.objects.get().counted_until
    for _ in range(3):
        assert caller.get("executions").status_code == 429
    assert ApiToken.objects.get().counted_until == before


def test_a_token_without_a_rate_is_never_counted() -> None:
    caller = api(rate="")
    assert {caller.get("executions").status_code for _ in range(20)} == {200}
    assert ApiToken.objects.get().used_at


@needs_two_connections
@pytest.mark.django_db(transaction=True)
def test_concurrent_requests_do_not_exceed_the_rate(in_threads: Callable[..., list[Any]]) -> None:
    token, _ = make_token(rate="7/hour")

    def ask(_: int) -> int:
        return sum(api_tokens.count(token, database_now()) is None for _ in range(10))

    assert sum(in_threads(4, ask)) == 7


def test_a_session_may_read_and_needs_the_csrf_token_to_change_anything() -> None:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(someone("sue"))
    assert client.get("/api/v1/queues").status_code == 200
    body = {"flow": "probe", "key": "a"}
    refused = client.post("/api/v1/executions", body, content_type="application/json")
    problem(refused, "csrf-failed")
    client.cookies["csrftoken"] = "x" * 32
    made = client.post(
        "/api/v1/executions", body, content_type="application/json",
        headers={"X-CSRFToken": "x" * 32},
    )  # fmt: skip
    assert made.status_code == 201


def test_a_session_does_not_help_a_bad_token() -> None:
    client = Client()
    client.force_login(someone("sue"))
    response = client.get("/api/v1/queues", headers={"Authorization": "Bearer x"})
    problem(response, "no-valid-token")


def test_a_change_names_the_owner_the_api_and_the_reason_of_the_header_or_the_body() -> None:
    caller = api()
    caller.post("pause", {"target": "prep.low"}, X_Reason="a header")
    caller.post("pause", {"target": "prep.high", "reason": "a body"}, X_Reason="a header")
    entries = AuditEntry.objects.filter(action="pause").order_by("pk")
    assert [(c.actor, c.source, c.reason) for c in entries] == [
        ("owner-of-robot", "api", "a header"), ("owner-of-robot", "api", "a body"),
    ]  # fmt: skip


def test_a_payload_is_shown_only_with_the_scope_and_the_permission() -> None:
    seen = api(name="all")
    pk = seen.post("executions", {"flow": "probe", "key": "a", "payload": {"seconds": 9}}).json()["id"]
    assert seen.get(f"executions/{pk}").json()["payload"] == {"seconds": 9}
    without_scope = api("read", name="a")
    without_right = api(permissions=["view_execution"], name="b")
    for blind in (without_scope, without_right):
        assert blind.get(f"executions/{pk}").json()["payload"] is None
        (listed,) = blind.get("executions").json()["executions"]
        assert listed["payload"] is None
        assert listed["context"] is None
