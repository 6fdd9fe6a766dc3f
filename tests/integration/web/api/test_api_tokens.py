"""Making, listing and revoking tokens, by command and in the admin: a secret is shown once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from queuemgr.models import ApiToken, AuditEntry
from tests.integration.cli.commands import queue
from tests.integration.web.admin.admin_pages import act, page, text_of
from tests.integration.web.api.api_client import Api, make_token, someone

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("static_root")]

SECRET = re.compile(r"sluice_[\w-]{43}")


def test_the_command_prints_the_secret_alone_and_it_works() -> None:
    someone("ann")
    result = queue("token", "create", "ci", "--owner", "ann", "--scope", "read", "--days", "2")
    assert SECRET.fullmatch(result.out.strip())
    assert Api(result.out.strip()).get("executions").status_code == 200
    token = ApiToken.objects.get()
    assert token.expires_at
    assert (token.expires_at - token.created_at).days in (1, 2)


def test_the_command_lists_tokens_without_secret_or_digest() -> None:
    token, secret = make_token("read", "operate")
    for result in (queue("token", "list"), queue("token", "list", "--json")):
        assert "read" in result.out
        assert secret not in result.out
        assert token.digest not in result.out
    (record,) = queue("token", "list", "--json").records
    assert (record["name"], record["scopes"], record["problem"]) == ("robot", ["read", "operate"], "")


def test_the_command_makes_json_with_the_secret_once() -> None:
    someone("ann")
    result = queue("token", "create", "ci", "--owner", "ann", "--scope", "read", "--json")
    made = json.loads(result.out)
    assert SECRET.fullmatch(made["token"])
    assert (made["name"], made["owner"], made["rate"]) == ("ci", "ann", "600/minute")


def test_the_command_revokes_by_name_and_refuses_unknown_names() -> None:
    make_token(name="a")
    assert queue("token", "revoke", "a", "b").code == 3
    assert ApiToken.objects.get().revoked_at is None
    assert queue("token", "revoke", "a", "--reason", "leaked").out.startswith("1 revoked")
    assert queue("token", "revoke", "a").out.startswith("0 revoked")
    assert AuditEntry.objects.get(action="revoke token").reason == "leaked"


@pytest.mark.parametrize("more", [("--owner", "nobody"), ("--owner", "ann", "--rate", "often")])
def test_the_command_refuses_invalid_tokens(more: tuple[str, ...]) -> None:
    someone("ann")
    result = queue("token", "create", "ci", "--scope", "read", *more)
    assert (result.code, ApiToken.objects.count()) == (3, 0)
    assert more[-1] in result.error


def form(owner: User, **changed: Any) -> dict[str, Any]:
    whole = {
        "name": "ci", "owner": owner.pk, "scopes": ["read"], "rate": "60/minute", "expires_at": "",
        "reason": "for the tests",
    }  # fmt: skip
    return {**whole, **changed}


def test_the_admin_shows_the_secret_once_and_keeps_no_copy(superuser: Client) -> None:
    root = User.objects.get(username="root")
    answer = superuser.post(page("apitoken", view="add"), form(root))
    secret = SECRET.search(text_of(answer))
    assert secret
    assert "no-store" in answer["Cache-Control"]
    assert Api(secret[0]).get("executions").status_code == 200
    change = AuditEntry.objects.get(action="make token")
    assert (change.actor, change.source, change.reason) == ("root", "admin", "for the tests")
    token = ApiToken.objects.get()
    for url in (page("apitoken"), page("apitoken", token.pk, view="change"), page("auditentry")):
        shown = text_of(superuser.get(url))
        assert secret[0] not in shown
        assert token.digest not in shown
    assert secret[0] not in str(superuser.session.items())


@pytest.mark.parametrize(
    "wrong", [{"name": ""}, {"scopes": []}, {"scopes": ["root"]}, {"rate": "often"},
              {"expires_at": "2020-01-01T00:00"}],
)  # fmt: skip
def test_the_admin_refuses_invalid_tokens(superuser: Client, wrong: dict[str, Any]) -> None:
    root = User.objects.get(username="root")
    answer = superuser.post(page("apitoken", view="add"), form(root, **wrong))
    assert "error" in text_of(answer)
    assert not ApiToken.objects.exists()


def test_only_a_superuser_makes_a_token_for_someone_else(staff: Callable[..., Client]) -> None:
    """A token opens what its owner may do: it must not lift its maker above their own rights."""
    boss = User.objects.create_superuser("boss")
    client = staff("add_apitoken", "view_apitoken")
    client.post(page("apitoken", view="add"), form(boss))
    assert not ApiToken.objects.exists()
    sam = User.objects.get(username="sam")
    client.post(page("apitoken", view="add"), form(sam))
    assert ApiToken.objects.get().owner == sam


def test_the_admin_revokes_with_its_permission_only(staff: Callable[..., Client]) -> None:
    token, _ = make_token()
    client = staff("view_apitoken")
    act(client, "apitoken", "revoke", token)
    assert ApiToken.objects.get().revoked_at is None
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    assert "Revoked: robot" in text_of(act(client, "apitoken", "revoke", token))
    assert ApiToken.objects.get().revoked_at
    assert "was revoked" in text_of(client.get(page("apitoken")))


def test_an_openapi_document_and_a_page_that_loads_nothing_from_elsewhere(
    staff: Callable[..., Client], client: Client
) -> None:
    document = client.get("/api/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert "/api/v1/executions" in document["paths"]
    assert client.get("/api/v1/docs").status_code == 302, "the page is for the staff"
    shown = text_of(staff().get("/api/v1/docs"))
    loaded = re.findall(r'(?:src|href)="([^"]*)"', shown)
    assert any("swagger" in url for url in loaded)
    assert all(url.startswith("/static/ninja/") for url in loaded)
    for url in loaded:
        with closing(client.get(url)) as file:
            assert file.status_code == 200, url
    assert "http" not in shown.replace("http-equiv", "")
