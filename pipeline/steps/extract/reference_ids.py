"""The DOI and the arXiv id in an entry of a reference list, also across line breaks. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipeline.steps.closing_brackets import without_closing

LONGEST = 300
"""Characters of the longest DOI; what follows is text that ran into it."""

DOI_START = re.compile(r"(?<![\d.])10\.\d{4,9}/")
"""The start of every DOI: the directory, and a registrant of four digits or more."""

BROKEN_AFTER = tuple("/._-(:;")
"""Characters after which typesetters break a DOI over two lines."""

REST_OF_DOI = re.compile(r"(?=\S*\d)[\w.()/:;<>\-]+")
"""The rest of a DOI on the next line: not a plain word, which would begin a sentence."""

SENTENCE_SIGNS = ".,;:'\"’”»<>"  # noqa: RUF001 - typographic quotes are what papers print

ARXIV = re.compile(
    r"(?:arxiv\s*[:.]\s*|arxiv\.org/(?:abs|pdf)/|\babs/)"
    r"(\d{4}\.\d{4,5}(?:v\d+)?|[a-z]{2,}(?:-[a-z]+)*(?:\.[a-z]{2})?/\d{7}(?:v\d+)?)",
    re.IGNORECASE,
)
"""New ids (2101.00001) and old ones (hep-ex/0509008) after any of their usual prefixes."""


def doi_of(lines: Sequence[str]) -> str:
    """The first DOI in the lines of an entry, or ""."""
    for i, line in enumerate(lines):
        if match := DOI_START.search(line):
            return trimmed(continued(line[match.start() :].split(), lines[i + 1 :]))
        if line.endswith("doi.org/10.") and i + 1 < len(lines):
            return trimmed(continued(["10." + lines[i + 1].split()[0]], lines[i + 2 :]))
    return ""


def continued(words: Sequence[str], following: Sequence[str]) -> str:
    """The first word, and that of the next line if the DOI was broken at the end of its line."""
    found = words[0]
    if len(words) > 1:
        return found
    for line in following:
        first = line.split()[0]
        if len(found) > LONGEST or not found.endswith(BROKEN_AFTER) or not REST_OF_DOI.fullmatch(first):
            break
        found += first
        if first != line:
            break
    return found


def trimmed(doi: str) -> str:
    """Without the punctuation of the surrounding sentence, and without unmatched closing brackets."""
    return without_closing(doi[:LONGEST], SENTENCE_SIGNS, {")": "(", "]": "[", "}": "{"})


def arxiv_id_of(text: str) -> str:
    """The first arXiv id in the text of an entry, or ""."""
    match = ARXIV.search(text)
    return match[1] if match else ""
