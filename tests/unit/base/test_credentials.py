"""What is secret in the text of a setting is found, and masked however it is written later."""

from __future__ import annotations

import html
import json
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote, urlsplit

import httpx
import pytest
from kombu.utils.url import parse_url

from queuemgr.base import redaction
from queuemgr.base.credentials import (
    register_environment,
    register_secret_text,
    register_url_credentials,
    url_problem,
    without_url_credentials,
)
from queuemgr.base.redaction import without_secrets

SECRETS = ("plainsecret42", "pass word&<x>", "quote\"and'both", "p%ss+w=rd!", "päßwörd-ünï", "back\\slash-99")
URLS: tuple[Callable[[str], str], ...] = (
    lambda secret: f"postgres://user:{quote(secret, safe='')}@db.example.org:5432/name",
    lambda secret: f"redis://:{quote(secret, safe='')}@127.0.0.1:6379/0",
    lambda secret: f"sentinel://a.example.org:26379;sentinel://:{quote(secret, safe='')}@b.example.org:26379",
    lambda secret: f"amqp://user:{quote(secret, safe='')}@h//,amqp://other.example.org//",
    lambda secret: f"https://{quote(secret, safe='')}@git.example.org/v1",
    lambda secret: f"https://api.example.org/v1?model=m&api_key={quote(secret, safe='')}&x=1",
    lambda secret: f"postgres://u@h/name?sslpassword={quote(secret, safe='')}",
    lambda secret: f"rediss://h/0?ssl_keyfile_password={quote(secret, safe='')}",
)
NO_URLS: tuple[Callable[[str], str], ...] = (
    lambda secret: secret,
    lambda secret: json.dumps({"bucket_name": "papers", "secret_key": secret}),
    lambda secret: json.dumps({"bucket_name": "papers", "deep": [{"access_token": {"value": secret}}]}),
    lambda secret: json.dumps({"endpoint_url": f"https://u:{quote(secret, safe='')}@s3.example.org"}),
    lambda secret: json.dumps({"ACCOUNT_KEY": secret, "passwords": [secret]}),
    lambda secret: f"api-key={quote(secret)},x-other=1",
    lambda secret: f"x=1,Authorization=Bearer%20{quote(secret)}",
)
QUOTED: tuple[Callable[[str], str], ...] = (
    str, repr, ascii, json.dumps, html.escape, lambda secret: repr(secret.encode()),
    lambda secret: json.dumps([secret], ensure_ascii=False),
    lambda secret: quote(secret, safe=""), lambda secret: repr({"key": [secret]}),
    lambda secret: f"Traceback: KeyError({secret!r})",
)  # fmt: skip
INNOCENT = "papers at https://db.example.org:5432/name?model=m, bucket papers, user of h/0"


@pytest.fixture(autouse=True)
def _no_secret_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_secrets", set())


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", range(len(URLS) + len(NO_URLS)))
def test_a_secret_setting_is_masked_in_every_writing_whatever_its_form(form: int, secret: str) -> None:
    register_secret_text((*URLS, *NO_URLS)[form](secret))
    for written in QUOTED:
        shown = without_secrets(f"before {written(secret)} after")
        assert secret not in shown
        assert written(secret) not in shown
    assert without_secrets(INNOCENT) == INNOCENT


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", range(len(URLS)))
def test_a_password_in_the_url_of_another_setting_is_masked_alone(form: int, secret: str) -> None:
    register_url_credentials(URLS[form](secret))
    assert secret not in without_secrets(f"it answered {secret}")
    assert without_secrets(INNOCENT) == INNOCENT


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", range(len(URLS)))
def test_a_password_in_a_text_of_somebody_is_masked_there_and_nowhere_else(form: int, secret: str) -> None:
    url = URLS[form](secret)
    for text in (url, f"see {url}", f"{INNOCENT}, {url} {INNOCENT}"):
        assert quote(secret, safe="") not in without_url_credentials(text)
    assert INNOCENT in without_url_credentials(f"{url} {INNOCENT}")
    assert redaction._secrets == set()


@pytest.mark.parametrize(
    "text", ["", "papers", "https://example.org/v1?a=b", "redis://", "://", "a@b.example"]
)
def test_a_setting_without_a_secret_masks_nothing(text: str) -> None:
    register_url_credentials(text)
    assert redaction._secrets == set()


def test_a_password_that_url_syntax_would_break_is_masked_too() -> None:
    register_secret_text("postgres://user:half/or?all#of-it@db.example.org/name")
    assert "all#of-it" not in without_secrets("could not read half/or?all#of-it")


@pytest.mark.parametrize(
    "name", ["OUR_API_KEY", "GITHUB_TOKEN", "SLUICE_LLM_API_KEEY_SECRET", "smtp_password"]
)
def test_a_variable_of_somebody_else_that_is_called_like_a_secret_is_masked(name: str) -> None:
    register_environment({name: "its-secret-value", "PATH": "/usr/bin", "SSH_KEY": "/home/me/.ssh/id"})
    assert without_secrets("its-secret-value in /usr/bin and /home/me/.ssh/id") == (
        "*** in /usr/bin and /home/me/.ssh/id"
    )


def test_the_passwords_of_logins_in_the_environment_are_masked() -> None:
    register_environment({"FLOWER_BASIC_AUTH": "ann:hers-alone,bob:his-alone"})
    header = b64encode(b"bob:his-alone").decode()
    assert without_secrets(f"ann hers-alone bob his-alone {header}") == "ann *** bob *** ***"


def test_the_password_of_a_proxy_is_masked() -> None:
    register_environment({"HTTPS_PROXY": "http://me:of-the-proxy@proxy.example.org:3128"})
    assert "of-the-proxy" not in without_secrets("407 from the proxy for of-the-proxy")


def test_each_line_of_a_secret_of_several_is_masked_by_itself() -> None:
    """Logs write a line at a time."""
    register_secret_text(
        json.dumps({"private_key": "-----BEGIN KEY-----\nMIIEvQIBADANBg\n-----END KEY-----\n"})
    )
    assert "MIIEvQIBADANBg" not in without_secrets("    MIIEvQIBADANBg")


def test_a_secret_that_is_part_of_another_leaves_nothing_of_it() -> None:
    for secret in ("secret-part", "the-secret-part-of-all"):
        register_secret_text(secret)
    assert without_secrets("the-secret-part-of-all") == "***"


HALVES = ("firsthalf", "otherhalf")


@pytest.mark.parametrize("sign", "/?#[]")
@pytest.mark.parametrize("scheme", ["redis", "rediss", "amqp", "postgres", "sentinel", "https"])
def test_a_password_that_is_not_escaped_is_refused_and_no_half_of_it_is_quoted(
    scheme: str, sign: str
) -> None:
    secret = sign.join(HALVES)
    url = f"{scheme}://user:{secret}@db.example.org:6379/0"
    register_secret_text(url)
    for read in (lambda: urlsplit(url).port, lambda: parse_url(url), lambda: httpx.URL(url)):
        try:
            read()
        except Exception as error:
            told = without_secrets(repr(error))
            assert not any(half in told for half in HALVES), told
    problem = url_problem(url)
    assert "cannot be read" in problem and not any(half in problem for half in HALVES)
    assert url_problem(url.replace(secret, quote(secret, safe=""))) == ""


@pytest.mark.parametrize("form", range(len(URLS) + len(NO_URLS)))
@pytest.mark.parametrize("secret", SECRETS)
def test_a_setting_that_is_written_as_it_should_be_is_no_problem(form: int, secret: str) -> None:
    assert url_problem((*URLS, *NO_URLS)[form](secret)) == ""
