"""Authors, year, title and venue of an entry, and how sure they are. Pure.

An entry is divided where its style divides it: at the year after its authors, at a title in quotes, at a
colon, at the first full stop, or else at commas. Styles differ within a list, so each entry is tried alone.
"""

# ruff: noqa: RUF001 - typographic quotes and dashes are what papers print

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from pipeline.steps.extract.reference_names import (
    CORPORATE,
    UPPER,
    are_all_names,
    are_names,
    is_initials,
    names_in,
)

LONGEST_READ = 6_000
"""Characters of an entry that are divided into fields; what is longer is several entries, or no entry."""

YEAR = r"(?:1[5-9]|20)\d\d"

MARKER = re.compile(r"^(?:[\[［【(][^\[\]()［］]{1,70}[\]］】)]|\d{1,3}\.?(?= ))\s*(?=\D)")
"""The number or label before an entry."""

ADDRESS = re.compile(
    r"(?:\b[Dd][Oo][Ii]\b ?:? ?|\(|\bURL:? ?|Retrieved [^.]{0,60}from )?(?:https?: ?//|10\.\d{4,9}/|www\.).*"
    r"|\b(?:[Dd][Oo][Ii]: |IS[BS]N\b).*"
)
"""Where an entry's addresses begin; after them comes nothing that is a field."""

ARXIV = re.compile(r",? ?\(?\[?\barXiv(?: [Pp]reprint)?(?: e-[Pp]rints?)?,?(?: arXiv)? ?:.*", re.IGNORECASE)

AFTER_AUTHORS = (
    re.compile(rf"(?<!\d) ?[\[(](?P<year>{YEAR})[a-z]?(?:[,;/–-] ?[^()\[\]]{{1,40}})?[\])][.,:]? ?"),
    re.compile(r" ?\((?P<year>)(?:n\. ?d\.|[Ii]n press|[Ff]orthcoming|[Ss]ubmitted)[^()]{0,9}\)[.,:]? ?"),
    re.compile(rf"(?<=[.,\]]) (?P<year>{YEAR})[a-z]?[.:] "),
    re.compile(rf"(?<=[\w.,]) (?P<year>{YEAR})[a-z]?, "),
)
"""A year between authors and title, by style: APA, Springer and JSS, none, ACL and Chicago, AAS."""

QUOTED = re.compile(
    r"[“\"„«‘](?P<title>[^“”\"„«»]{8,500})[”\"“»]"
    r"|‘‘(?P<raised>[^‘“”\"]{8,500}?)’’|‘(?P<single>[^‘“”\"]{8,500}?)’(?=[,.;])"
)

SENTENCE_END = re.compile(
    r"(?:(?P<sign>[?!])|(?<![\w)\]'’”])(?P<word>[\w)\]'’”]*)\.)[”\"’)]? (?=[“\"(\[]?[^\W_])"
)
"""A full stop and what follows it."""

ABBREVIATIONS = frozenset(
    (
        "vs", "st", "dr", "mr", "mrs", "ms", "no", "vol", "al", "pp", "ed", "eds", "cf", "fig", "sec", "ch",
        "prof", "rev", "jr", "sr", "op", "cit", "proc", "int", "conf", "trans", "phys", "lett", "math",
        "appl", "sci", "univ", "nat", "comput", "soc", "am", "acad", "natl", "j",
        "v", "n", "p", "nr",
    )
)  # fmt: skip
"""Words whose full stop ends no sentence."""

COLON = re.compile(r": ?(?=[^\W\d_])")

BRACKETED_END = re.compile(
    r" ?(?:\[[^\[\]]{1,120}\]"
    r"|\([^()]{0,60}(?:[Vv]ersion|[Vv]ol|[Ee]d\b|[Ee]dition|pp?\.|v\d|latest)[^()]{0,60}\)"
    r"|\(\d[^()]{0,20}\))$"
)
"""What a style adds after a title: its version, its edition, what it is."""

YEAR_FOUND = re.compile(rf"(?<![\w.:/–-])\(?(?P<year>{YEAR})[a-z]?\)?(?![\w/–-])")
VOLUME_BEFORE = re.compile(r"\d\($")

VENUE_END = re.compile(
    r"[,;.]? ?\(?\b(?:[Vv](?:ol)?|[Nn](?:os?|r)?|[Pp]p?|[Ii]ss|[Aa]rt)\. ?\d"
    r"|[,;.]? ?\b(?:[Vv]olume|[Pp]ages?|[Nn]umber|[Ii]ssue) \d"
    r"|[,;:.]? ?\([12]\d{3}\) ?[\dA-Z]"
    r"|[,;:.]? \(?[A-Za-z]{0,2}\d[\w-]{0,20}(?:–\w{1,20})?\)?(?: ?[(:,;.\])–]|$)"
    r"|, \d{1,2} [A-Z][a-z]{2,8}\.? \d|, abs/|[;:] ?\d| \([Pp]p?\. ?\d| \((?:Vol|[12]\d{3})"
)
"""The volume, number or pages after a venue's name."""

TITLE_SIGNS = ' .,;:“”"‘'

MOST_BRACKETS, LONGEST_BRACKETS = 3, 150

PART = re.compile(r"[IVX]{1,5}|\d{1,2}|[A-Z]")

MOST_SENTENCES = 6

IN = re.compile(r"^[Ii]n:? ")
EDITORS_OF = re.compile(r"^[^()]{0,300}\([Ee]ds?\.?\),? ")


class ReferenceFields(NamedTuple):
    """What an entry's text says; "" or None where it does not."""

    authors: tuple[str, ...] = ()
    title: str = ""
    venue: str = ""
    year: int | None = None
    confidence: float = 0.0


class Divided(NamedTuple):
    """An entry in three: its authors, its title, and what follows; `certain`: by signs that are for this."""

    authors: tuple[str, ...]
    title: str
    rest: str
    certain: bool


def fields_of(entry: str) -> ReferenceFields:
    """The fields of an entry, given on one line."""
    text = MARKER.sub("", " ".join(entry[:LONGEST_READ].split()))
    body = ARXIV.sub("", ADDRESS.sub("", text)).rstrip(" ,;(")
    year = year_in(body) or last_year(text[len(body) :])
    divided = next((found for divide in WAYS if (found := divide(body))), None)
    if divided is None:
        return ReferenceFields(year=year, confidence=0.1 * (year is not None))
    title, venue = title_of(divided.title), venue_of(divided.rest)
    if not venue and ARXIV.search(text):
        venue = "arXiv"
    return ReferenceFields(divided.authors, title, venue, year, confidence(divided, title, venue, year))


def confidence(divided: Divided, title: str, venue: str, year: int | None) -> float:
    """A tenth for each thing that a well divided entry has, more for what most often goes wrong."""
    has_names = are_names(divided.authors)
    points = 3 * has_names + 2 * (len(title.split()) > 1 and len(title) < 300) + 2 * divided.certain
    return (points + bool(year) + bool(venue) + (has_names and bool(title))) / 10


def by_quotes(body: str) -> Divided | None:
    """`A. Abel, “Title,” J. Water 3 (2004).`"""
    match = QUOTED.search(body)
    if match is None:
        return None
    if match.start() < 2:
        return Divided((), match[match.lastgroup or "title"], body[match.end() :], certain=True)
    year = AFTER_AUTHORS[0].search(body)
    if year and year.end() < match.start() - 1:
        return None
    authors = names_in(without_year(body[: match.start()]))
    title = match[match.lastgroup or "title"]
    return Divided(authors, title, body[match.end() :], True) if are_names(authors) else None


def by_slashes(body: str) -> Divided | None:
    """`Abel A., Cole B. Title // J. Water. 2001. Vol. 5. P. 1-9.`, as in GOST 7.1."""
    before, slashes, source = body.partition(" // ")
    found = (by_semicolons(before) or by_sentence(before)) if slashes else None
    if found is None:
        return None
    return Divided(found.authors, ". ".join(filter(None, (found.title, found.rest))), source, certain=True)


def by_semicolons(body: str) -> Divided | None:
    """`Abel, A.; Cole, B. Title. J. Water 2001, 5, 1-9.`: where the last name ends."""
    before = 0
    for match in islice(SEMICOLON.finditer(body), MOST_NAMES):
        if not are_all_names(names_in(body[before : match.start()])):
            return None
        before = match.end()
        last = LAST_NAME.match(body, before)
        if last and not SEMICOLON.match(body, last.end("name")) and last["name"] != body[before:]:
            rest = body[last.end() :]
            if AFTER_LAST_NAME.match(rest) or not are_all_names(
                authors := names_in(body[: last.end("name")])
            ):
                return None
            return Divided(authors, *title_and_rest(rest), certain=True)
    return None


SEMICOLON = re.compile(r" ?; ?(?:(?:and|&) )?")

LAST_NAME = re.compile(
    rf"(?P<name>[^,;.:()]{{2,60}}, (?:{UPPER}\.(?:[ -]?{UPPER}\.)*"
    rf"|{UPPER}[\w-]+(?: {UPPER}[\w-]*\.?){{0,2}}(?=[:.])))[.:,]? ?"
)
"""A name and its initials, or its given names with a sign behind them, and that sign."""

AFTER_LAST_NAME = re.compile(r"[(\[]|\d{4}|(?:and|&) ")
"""No title follows the names, but a year, or another name."""

MOST_NAMES = 500


def by_year(body: str) -> Divided | None:
    """`Abel, A. (2004). Title. J Water, 3.` and its kin."""
    found = [match for pattern in AFTER_AUTHORS if (match := pattern.search(body))]
    for match in sorted(found, key=lambda each: each.start()):
        before, rest = body[: match.start()].strip(), body[match.end() :]
        if not before or (not rest and ")" in match[0] and not is_title(before, rest)):
            continue
        authors = names_in(before, family_first=")" in match[0])
        if match.re is AFTER_AUTHORS[3]:
            if are_names(authors) and rest:
                return at_commas(authors, rest)
        elif are_names(authors) or (authors and match.re is not AFTER_AUTHORS[2] and is_one_sentence(before)):
            if len(authors) == 1 and is_title(before, rest):
                return Divided((), before, rest, certain=False)
            return Divided(authors, *title_and_rest(rest), certain=True)
    return None


def is_one_sentence(text: str) -> bool:
    return next(sentence_ends(text), None) is None


def is_title(before: str, rest: str) -> bool:
    """Whether an entry without authors has its title before the year."""
    if "," in before or CORPORATE.search(before):
        return False
    words = before.split()
    return (
        not rest
        or rest.startswith(("In ", "Retrieved "))
        or sum(map(str.islower, words)) * 2 >= len(words) > 2
    )


def by_colon(body: str) -> Divided | None:
    """`Abel A, Cole B: Title. J Water 2001, 5:1-9.`"""
    match = COLON.search(body)
    authors = names_in(body[: match.start()]) if match else ()
    if match is None or not are_all_names(authors):
        return None
    return Divided(authors, *title_and_rest(body[match.end() :]), certain=True)


def by_sentence(body: str) -> Divided | None:
    """`A. Abel and B. Cole. Title. J Water, 3(2):1-9, 2004.`, or `Abel, A. and Cole, B. Title. …`"""
    end, after = next(sentence_ends(body, of_names=True), (len(body), len(body)))
    authors = names_in(body[:end])
    if are_all_names(authors) or (len(authors) == 1 and are_names(authors)):
        return Divided(authors, *title_and_rest(body[after:]), certain=True)
    stops = [match.end() for match in INITIAL_STOP.finditer(body, 0, end)]
    for stop in reversed(stops[-MOST_STOPS:]):
        if are_all_names(authors := names_in(body[:stop])):
            return Divided(authors, *title_and_rest(body[stop:].lstrip()), certain=True)
    return None


INITIAL_STOP = re.compile(r"(?:(?<![^\W_])[^\W\d_a-z]|\bet al)\.(?= )")
"""An initial with its full stop, or `et al.`: it may end the authors, or the title may have a name."""

MOST_STOPS = 8


def by_commas(body: str) -> Divided | None:
    """`A. Abel and B. Cole, Phys. Rev. D 12, 345 (2004).`, or with a title before the journal."""
    parts = COMMA.split(body)
    count = 0
    while count < len(parts) and is_of_authors(parts[count], count):
        count += 1
        if CORPORATE.search(parts[0]):
            break
    if not count:
        return None
    return at_commas(names_in(", ".join(parts[:count])), ", ".join(parts[count:]))


def is_of_authors(part: str, place: int) -> bool:
    """Whether what stands between two commas is names, or the initials after one."""
    names = names_in(part.removeprefix("and ").removeprefix("& "))
    return are_all_names(names) or (place == 0 and are_names(names)) or (place > 0 and is_initials(part))


def at_commas(authors: tuple[str, ...], rest: str) -> Divided:
    """Title and venue: by the last part like a journal with volume and year, else by the first number:
    `Title, J. Water 3` or `J. Water, 3`."""
    parts = COMMA.split(rest)
    journals = [i for i, part in enumerate(parts) if JOURNAL.match(part)]
    if journals:
        return Divided(authors, ", ".join(parts[: journals[-1]]), ", ".join(parts[journals[-1] :]), True)
    at = next((i for i, part in enumerate(parts) if any(map(str.isdigit, part))), len(parts) - 1)
    if at and not parts[at][:1].isalpha():
        at -= 1
    if at == 0 and len(parts) > 1 and len(parts[0].split()) >= TITLE_WORDS and not parts[0][-1].isdigit():
        at = 1
    return Divided(authors, ", ".join(parts[:at]), ", ".join(parts[at:]), certain=False)


COMMA = re.compile(r",(?: |(?=[A-Z]))")

TITLE_WORDS = 5
"""Words from which what has a number may be a title."""

JOURNAL = re.compile(rf"[A-Z][A-Za-z.&: -]{{1,60}}\d{{0,5}} ?\({YEAR}\)")
"""`Phys. Rev. D 12 (2004) 345`, `JHEP 11(2020) 143`."""


WAYS = (by_quotes, by_slashes, by_semicolons, by_colon, by_year, by_sentence, by_commas)


def sentence_ends(text: str, of_names: bool = False) -> Iterator[tuple[int, int]]:
    """Where each sentence ends, and where the next begins. `of_names`: a single capital is an initial."""
    for match in SENTENCE_END.finditer(text):
        if match["sign"] or not is_abbreviated(text, match, of_names):
            yield match.end() - 1, match.end()


def is_abbreviated(text: str, match: re.Match[str], of_names: bool) -> bool:
    """Whether the full stop belongs to the word: `et al.`, an initial; but not in `with R. Journal of`."""
    word = match["word"]
    if len(word) == 1 and word.isalpha() and word.isupper():
        if of_names:
            return True
        before = text[max(0, match.start() - 12) : match.start()].split(" ")
        return not (len(before) > 1 and before[-1] == "" and before[-2].islower())
    return word.lower() in ABBREVIATIONS


def title_and_rest(text: str) -> tuple[str, str]:
    """The first sentence, and more of them that are a title's: in lower case, or a part's number."""
    ends = list(islice(sentence_ends(text), MOST_SENTENCES))
    if not ends:
        return text, ""
    end, after = ends[0]
    for next_end, next_after in ends[1:]:
        if not is_of_title(text[after:next_end]):
            break
        end, after = next_end, next_after
    return text[:end], text[after:]


def is_of_title(sentence: str) -> bool:
    words = sentence.strip(" .").split()
    if not words or words[0] in ("In", "Proceedings"):
        return False
    if PART.fullmatch(words[0]) and len(words) == 1:
        return True
    return len(words) > 2 and words[-1].islower() and sum(map(str.islower, words)) * 2 >= len(words)


def title_of(text: str) -> str:
    text = text.strip(TITLE_SIGNS)
    for _ in range(MOST_BRACKETS):
        end = BRACKETED_END.search(text, max(0, len(text) - LONGEST_BRACKETS))
        text = text[: end.start()] if end else text
    return text.strip(TITLE_SIGNS)


def venue_of(rest: str) -> str:
    """The name of the journal, book or publisher that what follows the title begins with."""
    text = EDITORS_OF.sub("", IN.sub("", rest.strip(' ,.;:”"')))
    if YEAR_ALONE.match(text):
        return ""
    match = VENUE_END.search(text)
    if match and match.start():
        name = text[: match.start()].strip(" ,;:(")
        return name + "." * ("." in name and not name.endswith(".") and match[0].startswith("."))
    end = next(sentence_ends(text), None)
    return (text[: end[0]] if end else text).strip(" ,.;:(")


YEAR_ALONE = re.compile(rf"{YEAR}[a-z]?(?:[.,;:)]|$)")


def without_year(authors: str) -> str:
    return re.sub(rf"[ ,(]*{YEAR}[a-z]?\)?[., ]*$", "", authors)


def year_in(body: str) -> int | None:
    """The year of an entry: in brackets, else the last one that is no page and no volume."""
    found = [
        m
        for m in YEAR_FOUND.finditer(body)
        if not VOLUME_BEFORE.search(body, max(0, m.start() - 1), m.start() + 1)
    ]
    bracketed = [m for m in found if m[0].startswith("(") and m[0].endswith(")")]
    chosen = bracketed[0] if bracketed else found[-1] if found else None
    return int(chosen["year"]) if chosen else None


def last_year(behind: str) -> int | None:
    """The last year that stands alone behind an entry's address."""
    found = LAST_YEAR.findall(behind)
    return int(found[-1]) if found else None


LAST_YEAR = re.compile(rf"(?:, |\()({YEAR})(?=[.)]*(?:$| doi| https?:))")
