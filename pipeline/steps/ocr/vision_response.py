"""What a vision model is asked of a page, and how its answer is read. Pure.

The form is that of olmOCR 2 (allenai/olmocr, Apache-2.0): the answer is Markdown under a front
matter of five facts, which the model was trained to write. The wording here is our own; the names
of the facts and the forms asked for (LaTeX, HTML tables) are what the model must be told. Other
models may answer with the text alone.
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
"""olmOCR's own pipeline turns a page counter-clockwise by `rotation_correction` degrees, and its
model was trained on pictures turned by the same rule."""

LONGEST_UNIT = 200
"""Characters of the longest piece looked for when an answer goes round in circles."""

IN_CIRCLES = 300
"""Characters an answer's end must repeat one piece for, and at least eight times."""


@dataclass(frozen=True)
class PageAnswer:
    """A page as the model read it; `quarters` counter-clockwise it should be turned first, 0 if it
    stands right."""

    text: str
    language: str = ""
    quarters: int = 0
    is_table: bool = False
    is_diagram: bool = False


def parsed(answer: str) -> PageAnswer:
    """The page in an answer. Raises `ParseError` when there is none that can be used."""
    facts, text = front_matter(without_fence(answer.strip()))
    text = "" if text.strip().lower() == "null" else text.strip()
    if goes_in_circles(text):
        raise ParseError("The answer repeats itself without end.", retryable=True)
    found = PageAnswer(
        text,
        language_of(facts),
        quarters_of(facts),
        flag(facts, "is_table", False),
        flag(facts, "is_diagram", False),
    )
    if not text and not found.quarters:
        # With its facts complete, the model says that there is nothing: asking again costs, and
        # ends the same. Without, it said nothing at all.
        raise ParseError("The page has ink, but no text was found on it.", retryable=not facts)
    return found


def without_fence(answer: str) -> str:
    """Some models put the whole answer into a code fence."""
    fenced = re.fullmatch(r"```(?:markdown|md|yaml)?\n(.*?)\n?```", answer, re.DOTALL)
    return fenced[1].strip() if fenced else answer


def front_matter(answer: str) -> tuple[dict[str, str], str]:
    """The facts on top and the text below; no facts where the answer does not begin with `---`."""
    if not answer.startswith("---"):
        return {}, answer
    head, closed, text = answer[3:].partition("\n---")
    lines = [line.partition(":") for line in head.splitlines() if line.strip()]
    if not closed or not all(colon for _, colon, _ in lines):
        raise ParseError("The answer's front matter is broken.", retryable=True)
    return {name.strip(): value.strip().strip("\"'") for name, _, value in lines}, text


def language_of(facts: dict[str, str]) -> str:
    named = facts.get("primary_language", "")
    return "" if named.lower() in ("null", "none", "~") else named[:20]


def quarters_of(facts: dict[str, str]) -> int:
    """Quarter turns asked for; 0 where the page is said to stand right."""
    if flag(facts, "is_rotation_valid", True):
        return 0
    said = facts.get("rotation_correction", "0")
    if said not in QUARTERS:
        raise ParseError("The answer's rotation_correction is no quarter turn.", retryable=True)
    return QUARTERS[said]


def flag(facts: dict[str, str], name: str, default: bool) -> bool:
    said = facts.get(name, str(default)).lower()
    if said not in ("true", "false"):
        raise ParseError(f"The answer's {name} is neither true nor false.", retryable=True)
    return said == "true"


def goes_in_circles(text: str) -> bool:
    """Whether the end of a text is one piece over and over; leaders of dots are no such piece."""
    for length in range(1, LONGEST_UNIT + 1):
        times = max(8, math.ceil(IN_CIRCLES / length))
        unit = text[-length:]
        if text.endswith(unit * times) and any(map(str.isalnum, unit)):
            return True
    return False
