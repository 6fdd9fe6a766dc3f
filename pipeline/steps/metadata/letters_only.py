"""Text reduced to what two spellings of it share. Pure."""

from __future__ import annotations

import re
from unicodedata import normalize

NOT_LETTERS = re.compile(r"[\W_]+")


def squeezed(text: str) -> str:
    """Letters and digits only, in one case, ligatures resolved."""
    return NOT_LETTERS.sub("", normalize("NFKC", text)).casefold()
