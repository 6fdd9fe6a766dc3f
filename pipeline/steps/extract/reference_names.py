"""The names of an entry's authors, each as `Family, Given`, out of the text before its title. Pure."""

# ruff: noqa: RUF001 - typographic apostrophes are what papers print

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

LONGEST_BLOCK = 20_000
"""Characters that are read of the authors of one entry."""

LONGEST_NAME = 120
"""Characters of a name; what is longer is a sentence."""

UPPER = r"[^\W\d_a-zß-öø-ÿ]"
"""A capital, or a letter of a script without capitals."""

PARTICLES = frozenset(
    (
        "van", "von", "der", "den", "de", "del", "della", "di", "da", "dos", "do", "du", "la", "le", "las",
        "los", "ter", "ten", "zu", "zur", "zum", "el", "al", "bin", "ibn", "af", "av",
    )
)  # fmt: skip
"""Words in lower case that begin a family name."""

INITIALS = re.compile(
    rf"(?:{UPPER}\.?|{UPPER}[a-z]\.)(?:[ -]?{UPPER}[a-z]?\.)*(?: [a-z]+){{0,2}}"
    r"(?:,? ?(?:Jr|Sr|I{2,3}|IV)\.?)?"
    rf"|{UPPER}{{2,4}}|{UPPER}\.?(?:[ -]{UPPER}\.?)+"
)
"""Given names as `A. B.`, `AB`, `A B`, `J.-P.`, `S. van`, `Yu.`."""

AFTER_FAMILY = re.compile(
    rf"(?P<before>\w[\w’' -]{{1,60}}?) (?P<dotted>(?:{UPPER}\.[ -]?){{1,3}}{UPPER}\.)"
    rf"|(?P<family>\S.*) (?P<given>{UPPER}{{1,4}}(?:-{UPPER})?)\.?"
)
"""`Abel AB`, `Abel A. B.`"""

GIVEN = re.compile(rf"(?:{UPPER}\.){{2,4}}|{UPPER}[a-z’]?\.?(?:-{UPPER}\.?)*|{UPPER}[\w'’\-]*")
FAMILY = re.compile(rf"{UPPER}[\w'’\-]+")

DOTTED_END = re.compile(rf"(?<!\w)(?:{UPPER}|Jr|Sr)\.$")
"""The full stop of an initial or of `Jr.`"""

SUFFIX = re.compile(r"(?:Jr|Sr|I{2,3}|IV)\.?")

EDITORS = re.compile(
    r" ?\((?:[Ee]ds?|[Hh]rsg|[Cc]omp|[Dd]irector|[Tt]rans|[Aa]uthor)[^()]{0,30}\)|,? [Ee]ds?\."
    r"|, (?:editor|translator|director)s?\b"
)

ET_AL = re.compile(r"[, ](?:and |& )?(?:et\.? ?al\b|others\.?,?$)")

SEPARATOR = re.compile(r" ?[;,] ?(?:(?:and|&|und|et|y) |(?:…|\. ?\. ?\.) ?(?:& )?)?| (?:and|&|und|et|y|…) ")

STRONG = re.compile(r" ?; ?(?:(?:and|&) )?")
"""Between names whose family name and given names are divided by a comma."""

CORPORATE = re.compile(
    r"\b(?:teams?|groups?|societ\w+|institut\w*|universit\w+|associations?|committee|consortium|council|"
    r"collaborations?|foundation|organi[sz]ations?|department|ministry|agency|offices?|bureau|cent(?:er|re)s?|"
    r"corporation|company|communit\w+|commission|board|projects?|networks?|press|inc|ltd|llc|gmbh|developers|"
    r"contributors|library|laborator\w+|academ\w+|services?|union|program(?:me)?|software|technolog\w+)\b",
    re.IGNORECASE,
)
"""Words of names that are no person's."""

SIGNS = " ,;:&…"


def names_in(block: str, family_first: bool = False) -> tuple[str, ...]:
    """The authors named in the text before a year or a title. `family_first`: what has no comma is the name
    of no person."""
    block = EDITORS.sub("", " ".join(block[:LONGEST_BLOCK].split()))
    text, *more = ET_AL.split(block, maxsplit=1)
    if more and more[0].strip(SIGNS + "."):
        return ()  # a title follows
    text = text.strip(SIGNS)
    if is_corporate(text):
        return (trimmed(text),)
    parts = [trimmed(part) for part in (STRONG if ";" in text else SEPARATOR).split(text)]
    parts = [part for part in parts if part]
    if ";" in text:
        return tuple(one_name(name) for part in parts for name in last_two(part))
    return tuple(paired(parts, family_first or any(map(is_initials, parts))))


def last_two(part: str) -> list[str]:
    """`Abel, A. and Cole, B.` behind a semicolon are two."""
    both = [each.strip() for each in LAST.split(part, maxsplit=1)]
    return both if len(both) == 2 and all(map(is_person, map(one_name, both))) else [part]


LAST = re.compile(r",? (?:and|&|und|et|y) ")


def are_names(names: Sequence[str]) -> bool:
    """Whether most of them are names of people, or the only one is a corporation's."""
    if len(names) == 1 and CORPORATE.search(names[0][:LONGEST_NAME]):
        return True
    return bool(names) and sum(map(is_person, names)) * 2 > len(names)


def are_all_names(names: Sequence[str]) -> bool:
    return bool(names) and all(map(is_person, names))


def is_person(name: str) -> bool:
    """Whether it is a family name, a comma and given names."""
    family, comma, given = name.partition(", ")
    if not comma or len(name) > LONGEST_NAME:
        return False
    words = [word for word in family.split() if word.lower() not in PARTICLES]
    return (
        0 < len(words) < 4 and all(map(FAMILY.fullmatch, words)) and (is_initials(given) or are_given(given))
    )


def are_given(part: str) -> bool:
    words = part.split()
    return 0 < len(words) < 5 and all(GIVEN.fullmatch(word) or word in PARTICLES for word in words)


def is_corporate(text: str) -> bool:
    """Whether it is the one name of no person, of several words and perhaps with an `and`."""
    return "," not in text and ";" not in text and bool(CORPORATE.search(text[:LONGEST_NAME]))


def trimmed(part: str) -> str:
    """Without signs around it; a full stop is kept where it belongs to an initial."""
    part = part.strip(SIGNS)
    if not part.endswith("."):
        return part
    return part if DOTTED_END.search(part[-6:]) else part.rstrip(".")


def paired(parts: Sequence[str], family_first: bool) -> Iterator[str]:
    """Names out of what stands between commas: given names belong to the family name before them."""
    held, turns = "", given_names_in(parts)
    for place, part in enumerate(parts):
        if held and SUFFIX.fullmatch(part):
            continue
        if held and (place in turns or is_initials(part)):
            yield f"{held}, {part}"
            held = ""
            continue
        if held:
            yield one_name(held, family_first)
        held = part
    if held:
        yield one_name(held, family_first)


def is_initials(part: str) -> bool:
    return len(part) <= 30 and bool(INITIALS.fullmatch(part))


def given_names_in(parts: Sequence[str]) -> range:
    """The places of given names that are written out: `Abel, Ann, Cole, Bo`, or `Abel, Ann, Bo Cole`."""
    if (
        len(parts) < 2
        or any(map(is_initials, parts[1:]))
        or not (is_family(parts[0]) and are_given(parts[1]))
    ):
        return range(0)
    if len(parts) > 2 and all(" " in part and not is_family(part) for part in parts[2:]):
        return range(1, 2)
    return range(1, len(parts), 2) if len(parts) % 2 == 0 and all(map(is_family, parts[::2])) else range(0)


def is_family(part: str) -> bool:
    """Whether it is a family name alone: one word, after particles."""
    words = part.split()
    return all(word.lower() in PARTICLES for word in words[:-1]) and bool(FAMILY.fullmatch(words[-1]))


def one_name(name: str, family_first: bool = False) -> str:
    """`Ann B. Abel`, `A. Abel`, `Abel AB` or `Abel, Ann` as `Abel, …`; what is no person's as it is."""
    family, comma, given = name.partition(",")
    if comma and given.strip():
        return f"{family.strip()}, {given.strip()}"
    name = family.strip()
    if len(name) > LONGEST_NAME or CORPORATE.search(name):
        return name
    match = AFTER_FAMILY.fullmatch(name)
    if match and match["family"] and not GIVEN_DOT.search(match["family"]):
        return f"{match['family']}, {match['given']}"
    if match and match["dotted"]:
        return f"{match['before']}, {match['dotted']}"
    return name if family_first else turned(name.split())


GIVEN_DOT = re.compile(rf"(?<!\w){UPPER}\.")


def turned(words: Sequence[str]) -> str:
    """Given names, particles and a family name, the family name first; what is something else as it is."""
    first = len(words) - 1
    while first > 1 and words[first - 1].lower() in PARTICLES:
        first -= 1
    given = words[:first]
    if not given or not FAMILY.fullmatch(words[-1]) or not all(map(GIVEN.fullmatch, given)):
        return " ".join(words)
    return f"{' '.join(words[first:])}, {' '.join(given)}"
