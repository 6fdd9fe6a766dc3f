"""Citation keys as Zotero makes them: `lovelace_notes_1843`, unique within a file. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import normalize

from pipeline.steps.metadata.merge import family_name

NO_LETTERS = re.compile(r"[^a-z0-9]+")
STOP_WORDS = frozenset({"a", "an", "the", "on", "of", "in", "for", "and", "to", "from", "with"})

MAX_PART = 30
MAX_KNOWN = 200_000
"""Names of keys that are remembered, in 20 MB; each new one after them gets the number of its entry."""


class CitationKeys:
    """The keys given out so far, for one file."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._given = 0

    def key(self, authors: Sequence[str], title: str, year: int | None) -> str:
        """A key that was not given before: the second of a name gets `-2`, and no name has a hyphen."""
        name = "_".join(filter(None, (first_author(authors), first_word(title), str(year or ""))))
        self._given += 1
        if name not in self._times and len(self._times) >= MAX_KNOWN:
            return f"{name}-n{self._given}"
        times = self._times[name] = self._times.get(name, 0) + 1
        return name if times == 1 else f"{name}-{times}"


def first_author(authors: Sequence[str]) -> str:
    return (_ascii(family_name(authors[0][:200])) if authors else "") or "noauthor"


def first_word(title: str) -> str:
    words = (_ascii(word) for word in title[:500].split())
    return next((word for word in words if word and word not in STOP_WORDS), "")


def _ascii(text: str) -> str:
    """Letters and digits of ASCII, in lower case, accents dropped; "" for other scripts."""
    folded = normalize("NFKD", text.replace("ß", "ss").replace("ø", "o").replace("Ø", "O")).casefold()
    return NO_LETTERS.sub("", folded.encode("ascii", "ignore").decode())[:MAX_PART]
