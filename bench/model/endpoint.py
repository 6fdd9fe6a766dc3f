"""One request to a model, and what became of it: a line in a trace, with what the provider charges for it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import httpx

MAX_TOKENS = 600
CHARACTERS_PER_TOKEN = 4
"""As the provider estimates a prompt: bytes of the request's body by four."""


def body_of(words: int) -> bytes:
    """A prompt of so many words."""
    messages = [{"role": "user", "content": "water rose " * (words // 2)}]
    return json.dumps({"model": "gpt-x", "max_tokens": MAX_TOKENS, "messages": messages}).encode()


def charged(words: int) -> int:
    """The tokens that the provider charges for it."""
    return len(body_of(words)) // CHARACTERS_PER_TOKEN + MAX_TOKENS


def ask(words: int) -> float | None:
    """Send it; returns None if it was answered, else the seconds the provider asks to wait for."""
    began = time.time()
    answer = httpx.post(
        os.environ["MODEL_URL"], content=body_of(words), timeout=60,
        headers={"Content-Type": "application/json", "Authorization": "Bearer bench"},
    )  # fmt: skip
    _trace(began=began, ended=time.time(), status=answer.status_code, tokens=charged(words))
    if answer.status_code == 429:
        return float(answer.headers["retry-after"])
    answer.raise_for_status()
    return None


def _trace(**line: Any) -> None:
    with Path(os.environ["MODEL_TRACE"]).open("ab", buffering=0) as file:
        file.write(json.dumps(line).encode() + b"\n")
