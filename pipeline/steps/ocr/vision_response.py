"""The prompt for a vision model, and how its answer is parsed. Pure.

The format is that of olmOCR 2 (allenai/olmocr, Apache-2.0): Markdown under a front matter with five
fields, which the model was trained to write. The wording is our own; the names of the fields and the
requested formats (LaTeX, HTML tables) are those the model knows. Other models may answer with the
text alone.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from pipeline.steps.pdf.page_outcomes import ParseError

PROMPT = (
    "The picture is one page of a document. Give back its text, in the order a person would read "
    "it, as Markdown: equations as LaTeX, tables as HTML, each figure or chart as "
    "![what it shows](page_startx_starty_width_height.png). Add nothing that is not there.\n"
    "Begin with a front matter section that gives primary_language, is_rotation_valid, "
    "rotation_correction, is_table and is_diagram."
)

QUARTERS = {"0": 0, "90": 1, "180": 2, "270": 3}
"""Quarter turns by `rotation_correction` in degrees, counter-clockwise, as in olmOCR's own pipeline."""

LONGEST_UNIT = 200
"""Characters of the longest repeated piece that is looked for."""

REPEATED_CHARACTERS = 300
"""Characters at an answer's end that must repeat one piece, at least eight times."""


@dataclass(frozen=True)
class PageAnswer:
    """A page as the model read it; `quarters`: the quarter turns counter-clockwise that make it
    upright, 0 if it is."""

    text: str
    language: str = ""
    quarters: int = 0
    is_table: bool = False
    is_diagram: bool = False


def parsed(answer: str) -> PageAnswer:
    """The page in an answer. Raises `ParseError` if the answer is unusable."""
    fields, text = front_matter(without_fence(answer.strip()))
    text = "" if text.strip().lower() == "null" else text.strip()
    if is_repetitive(text):
        raise ParseError("The answer repeats itself endlessly.", retryable=True)
    found = PageAnswer(
        text,
        language_of(fields),
        quarters_of(fields),
        flag(fields, "is_table", False),
        flag(fields, "is_diagram", False),
    )
    if not text and not found.quarters:
        # With complete fields the model states that there is no text, and would do so again.
        raise ParseError("The page has ink, but no text was found on it.", retryable=not fields)
    return found


def without_fence(answer: str) -> str:
    """Some models put the whole answer in a code fence."""
    fenced = re.fullmatch(r"```(?:markdown|md|yaml)?\n(.*?)\n?```", answer, re.DOTALL)
    return fenced[1].strip() if fenced else answer


def front_matter(answer: str) -> tuple[dict[str, str], str]:
    """The fields and the text below them; no fields if the answer does not begin with `---`."""
    if not answer.startswith("---"):
        return {}, answer
    head, closed, text = answer[3:].partition("\n---")
    lines = [line.partition(":") for line in head.splitlines() if line.strip()]
    if not closed or not all(colon for _, colon, _ in lines):
        raise ParseError("The answer's front matter is broken.", retryable=True)
    return {name.strip(): value.strip().strip("\"'") for name, _, value in lines}, text


def language_of(fields: dict[str, str]) -> str:
    named = fields.get("primary_language", "")
    return "" if named.lower() in ("null", "none", "~") else named[:20]


def quarters_of(fields: dict[str, str]) -> int:
    """The quarter turns to make the page upright; 0 if the answer says it is."""
    if flag(fields, "is_rotation_valid", True):
        return 0
    value = fields.get("rotation_correction", "0")
    if value not in QUARTERS:
        raise ParseError("The answer's rotation_correction is no quarter turn.", retryable=True)
    return QUARTERS[value]


def flag(fields: dict[str, str], name: str, default: bool) -> bool:
    value = fields.get(name, str(default)).lower()
    if value not in ("true", "false"):
        raise ParseError(f"The answer's {name} is neither true nor false.", retryable=True)
    return value == "true"


def is_repetitive(text: str) -> bool:
    """Whether a text ends in one piece repeated over and over; dotted leaders do not count."""
    for length in range(1, LONGEST_UNIT + 1):
        times = max(8, math.ceil(REPEATED_CHARACTERS / length))
        unit = text[-length:]
        if text.endswith(unit * times) and any(map(str.isalnum, unit)):
            return True
    return False
