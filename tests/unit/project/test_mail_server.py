"""The mail server of an installation is one address."""

from __future__ import annotations

import pytest

from project.mail_server import mail_settings


def test_a_mail_server_is_stated_in_one_address() -> None:
    assert mail_settings("smtp+tls://ann:p%40ss@mail.example.org") == {
        "EMAIL_HOST": "mail.example.org", "EMAIL_PORT": 587, "EMAIL_HOST_USER": "ann",
        "EMAIL_HOST_PASSWORD": "p@ss", "EMAIL_USE_TLS": True, "EMAIL_USE_SSL": False,
    }  # fmt: skip
    assert mail_settings("smtp://localhost:2525")["EMAIL_PORT"] == 2525
    assert mail_settings("") == {}


@pytest.mark.parametrize(
    "url", ["https://secret", "smtp://", "smtp://a:secret@b:x", "secret", "smtp://[secret"]
)
def test_what_is_no_mail_server_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ValueError, match="must be smtp") as refused:
        mail_settings(url)
    assert "secret" not in str(refused.value)
