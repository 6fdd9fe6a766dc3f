"""Signatures as Standard Webhooks 1.0 has them, and secrets that a setting may hold."""

from __future__ import annotations

import base64

import pytest
from pydantic import SecretStr

from queuemgr.base import webhook_signature
from queuemgr.base.config import WebhookSettings
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.redaction import without_secrets

KEY = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
"""Of the example in the specification's test vectors, which libraries of other languages are tested with."""


def test_the_vector_of_the_specification_is_signed_as_it_says() -> None:
    body = b'{"test": 2432232314}'
    signed = webhook_signature.signatures([KEY], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert signed == SIGNATURE


def test_of_two_secrets_both_sign() -> None:
    keys = webhook_signature.keys_by_name(
        "a=whsec_" + "A" * 40 + ", a=whsec_" + "B" * 40 + ",b=whsec_" + "C" * 40
    )
    assert {name: len(several) for name, several in keys.items()} == {"a": 2, "b": 1}
    signed = webhook_signature.signatures(keys["a"], "msg_1", 1, b"")
    assert len(signed.split(" ")) == 2


@pytest.mark.parametrize(
    "text", ["whsec_" + "A" * 40, "a=" + "A" * 40, "a=whsec_short", "a=whsec_!", "A=whsec_x"]
)
def test_what_is_no_secret_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(ValueError, match=r"whsec_") as refused:
        webhook_signature.keys_by_name(text)
    assert "A" * 40 not in str(refused.value)
    with pytest.raises(ConfigurationError) as refused_setting:
        WebhookSettings.load({"SLUICE_WEBHOOK_SECRETS": text})
    assert "A" * 40 not in str(refused_setting.value)


def test_secrets_are_masked_wherever_they_are_quoted() -> None:
    secret = webhook_signature.new_secret()
    WebhookSettings(webhook_secrets=SecretStr(f"billing={secret}"))
    assert secret not in without_secrets(f"it was {secret}")
