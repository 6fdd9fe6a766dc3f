"""Keys of executions that read a document again: made of the document's key, and found back. Pure."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from queuemgr import MAX_KEY

AGAIN = " (ocr)"
"""Ends the key of the execution that reads a document again, every page by OCR."""

DIGEST = 32
"""Characters of the hash that keeps keys unique which are cut."""

LONGEST_WHOLE = MAX_KEY - len(AGAIN)
BEGIN = LONGEST_WHOLE - DIGEST - 1
"""Characters of a longer key that stand before its hash."""


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:DIGEST]


def key_again(key: str) -> str:
    """The key of the execution that reads this document again; a long one is cut, and has a hash."""
    whole = key if len(key) <= LONGEST_WHOLE else f"{key[:BEGIN]}~{digest(key)}"
    return whole + AGAIN


class CutKey(NamedTuple):
    """What is left of a document's key in that of the execution that reads it again."""

    begin: str
    digest: str

    def is_of(self, key: str) -> bool:
        return len(key) > LONGEST_WHOLE and key.startswith(self.begin) and digest(key) == self.digest


def cut_key(execution: str) -> CutKey | None:
    """Of an execution whose document's key may have been cut."""
    if len(execution) != MAX_KEY or not execution.endswith(AGAIN) or execution[BEGIN] != "~":
        return None
    return CutKey(execution[:BEGIN], execution[BEGIN + 1 : LONGEST_WHOLE])
