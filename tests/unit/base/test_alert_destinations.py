"""Destinations of alerts as settings state them."""

from __future__ import annotations

import pytest

from queuemgr.base.alert_destinations import Kind, destinations_in


def test_mailboxes_webhooks_and_chats_are_stated_in_one_line() -> None:
    text = (
        "ops=mailto:ops@example.org, pager=https://pager.example/x?key=1,chat=chat+https://chat.example/T/B"
    )
    found = destinations_in(text)
    assert [(each.name, each.kind, each.place) for each in found] == [
        ("ops", Kind.MAIL, "example.org"),
        ("pager", Kind.WEBHOOK, "pager.example"),
        ("chat", Kind.CHAT, "chat.example"),
    ]
    assert found[2].address == "https://chat.example/T/B"


@pytest.mark.parametrize(
    "text",
    [
        "mailto:secret@example.org", "ops=secret", "ops=ftp://secret", "Ops=https://secret.example",
        "a=https://secret.example,a=https://secret.example", "ops=mailto:secret@a@b", "ops=",
        "ops=mailto:secret@example.org\nBcc: x@example.org", "ops=chat+mailto:secret@example.org",
        ",".join(f"a{n}=https://secret.example" for n in range(21)),
    ],
)  # fmt: skip
def test_what_is_no_destination_is_refused_without_its_address(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        destinations_in(text)
    assert "secret" not in str(refused.value)
