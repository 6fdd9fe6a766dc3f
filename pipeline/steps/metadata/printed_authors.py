"""The names of authors below a title, with the marks of their affiliations. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_LINES = 25
"""Lines below a title that are read."""

MAX_NAMES = 200

ENDS = re.compile(
    r"^(?:abstract|summary|introduction|keywords?|key words|doi\b|received|submitted|accepted|"
    r"published|correspond|contact|e-?mail|https?:|摘\s{0,3}要|\(|（|1\s{0,2}\.\s)|@|\d{4}-\d{4}",  # noqa: RUF001 - as printed
    re.IGNORECASE,
)  # fmt: skip
"""Lines that end the list."""

AFFILIATION = re.compile(
    r"\b(?:universi\w{0,8}|institut\w{0,6}|department|dept|school|college|laborator\w{0,4}|labs?|cent(?:er|re)|"
    r"faculty|faculdade|facult\w{0,5}|hospital|academy|division|group|inc|gmbh|ltd|corporation|company|research|"
    r"sciences?|station|agency|ministry|observatory|foundation|museum|program(?:me)?|unit|usa|uk|germany|france|"
    r"china|canada|collaboration|article|journal|review|open access|engineering|physics|mathematics)\b",
    re.IGNORECASE,
)
MARKS = re.compile(
    r"[\d*∗†‡§¶‖#◦]{1,12}(?:\s{0,2},\s{0,2}[\d*∗†‡§¶‖#]{1,12}){0,10}|\s[a-z]\b(?=\s{0,2}(?:,|$))"  # noqa: RUF001 - as printed
)
"""Footnote marks behind a name, with the commas between them."""

STARTS_WITH_MARK = re.compile(r"^\s{0,3}(?:\d{1,2}|[*∗†‡§¶a-z])\s{0,2}[A-ZÀ-Þ]")  # noqa: RUF001 - as printed
SEPARATORS = re.compile(r"\s{0,3}(?:,\s{0,3}and\s|,|;|&|·|•|\sand\s|\sund\s|\set\s|\sy\s)\s{0,3}")
NAME_WORD = re.compile(r"(?:[^\W\d_a-z][\w.'’‑-]{0,30}|[a-z]{1,3}['’]?[^\W\d_a-z][\w.'’-]{0,30})")  # noqa: RUF001 - as printed
PARTICLE = re.compile(
    r"(?:da|das|de|del|della|den|der|des|di|do|dos|du|el|la|le|ten|ter|van|von|zu|y|bin|al)"
)


LONGEST_MARKS = 40


def with_marks_joined(lines: Sequence[str]) -> list[str]:
    """The lines, where marks behind names stand on lines of their own, as raised ones do in some files, with
    what they break joined: `Ada Abel`, `1`, `, Bo Bebel`, `2`."""
    joined: list[str] = []
    goes_on = False
    for i, line in enumerate(lines):
        text = line.strip()
        before_comma = i + 1 < len(lines) and lines[i + 1].lstrip().startswith((",", ";"))
        marks = len(text) <= LONGEST_MARKS and MARKS.fullmatch(text) is not None
        goes_on = (goes_on and text.startswith((",", ";"))) or (marks and (goes_on or before_comma))
        goes_on &= bool(joined)
        if goes_on:
            joined[-1] = f"{joined[-1]} {text}"
        else:
            joined.append(line)
    return joined


def printed_authors(lines: Sequence[str]) -> list[str]:
    """The names that the lines after a title begin with, up to the first affiliation; none if the lines
    are not such a list."""
    taken: list[str] = []
    for line in lines[:MAX_LINES]:
        if ENDS.search(line) or (taken and STARTS_WITH_MARK.match(line)):
            break
        if AFFILIATION.search(line):
            if taken:
                break
            return []
        taken.append(line[:1_000])
        if len(taken) > 1 and not is_open(taken[-2]) and not is_list(line):
            taken.pop()
            break
    either = names_in(", ".join(taken)) or names_in(" ".join(taken))
    return either[:MAX_NAMES]


def names_in(text: str) -> list[str]:
    """The names in a list; none if anything in it is no name."""
    found = [name for name in map(tidy, SEPARATORS.split(MARKS.sub(",", text))) if name]
    return found if all(map(is_name, found)) else []


def has_marks(line: str) -> bool:
    """Whether a line has several names, or marks of affiliations."""
    return bool(MARKS.search(line)) or len(SEPARATORS.split(line.strip())) > 1


def is_open(line: str) -> bool:
    """Whether a list goes on in the next line."""
    return line.rstrip().endswith((",", " and", "&", "-")) or "," in line


def is_list(line: str) -> bool:
    return bool(names_in(line))


def tidy(part: str) -> str:
    return part.strip(" .\t")


def is_name(text: str) -> bool:
    """Two to six words, the first and the last of them with a capital letter."""
    words = text.split()
    if not 2 <= len(words) <= 6 or len(text) > 80:
        return False
    ends = NAME_WORD.fullmatch(words[0]) and NAME_WORD.fullmatch(words[-1])
    return bool(ends) and all(NAME_WORD.fullmatch(word) or PARTICLE.fullmatch(word) for word in words)
