"""Invented references, printed in every style that papers use: what is printed is known field by field."""

# ruff: noqa: RUF001 - typographic quotes and dashes are what papers print

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Name = tuple[str, str]
"""A family name and given names; no given names: a corporation."""


@dataclass(frozen=True)
class Printed:
    """What a style prints of a reference."""

    authors: tuple[Name, ...]
    title: str
    venue: str
    year: int
    volume: int
    pages: str
    doi: str = ""


FAMILIES = (
    "Abel", "Baker", "van der Berg", "Cole", "Dunn", "El-Sayed", "Frost", "García-Márquez", "Hill", "Innes",
    "Jørgensen", "Kim", "Lee", "Müller", "Ng", "O’Brien", "Park", "Quist", "Roy", "Šimić", "Tan", "Usher",
    "Vance", "Wu", "Young", "Zhang",
)  # fmt: skip
GIVENS = ("Ann", "Bo", "Carl David", "Dora", "Émile", "Fay", "Guy Henri", "Ida")
TITLES = (
    "On the seals of gates and the water behind them",
    "Night openings and their drift",
    "A model of slow locks in R",
    "Weirs: what they hold, and for how long",
    "Learning to predict the level of mill ponds from sound",
    "Fords of the lowlands",
    "How many sluices does a village need?",
    "Deep gates for very long canals",
)
VENUES = ("Journal of Water", "Sluices and Locks", "International Review of Mills", "Annals of Ponds")


def references(count: int) -> list[Printed]:
    return [
        Printed(
            tuple(
                (FAMILIES[(n * 3 + k * 7) % len(FAMILIES)], GIVENS[(n + k) % len(GIVENS)])
                for k in range(1 + n % 4)
            ),
            TITLES[n % len(TITLES)],
            VENUES[n % len(VENUES)],
            1985 + (n * 7) % 40,
            3 + n,
            f"{40 + n * 13}–{52 + n * 13}",
            f"10.1000/water.{1985 + n}.{n:03d}" if n % 3 else "",
        )
        for n in range(count)
    ]


def initials(given: str, after: str = ".", between: str = " ") -> str:
    return between.join(name[0] + after for name in given.split())


def joined(names: Sequence[str], last: str) -> str:
    """`A, B, and C` with the words before the last."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + last + names[-1]


def apa(ref: Printed) -> str:
    names = joined([f"{family}, {initials(given)}" for family, given in ref.authors], ", & ")
    doi = f" https://doi.org/{ref.doi}" if ref.doi else ""
    end = "" if ref.title.endswith("?") else "."
    return f"{names} ({ref.year}). {ref.title}{end} {ref.venue}, {ref.volume}(2), {ref.pages}.{doi}"


def acl(ref: Printed) -> str:
    names = joined(
        [f"{given} {family}" for family, given in ref.authors], ", and " if len(ref.authors) > 2 else " and "
    )
    end = "" if ref.title.endswith("?") else "."
    return f"{names}. {ref.year}. {ref.title}{end} {ref.venue}, {ref.volume}(2):{ref.pages}."


def icml(ref: Printed) -> str:
    names = joined([f"{family}, {initials(given)}" for family, given in ref.authors], ", and ")
    return f"{names} {ref.title.rstrip('?')}. {ref.venue}, {ref.volume}(2):{ref.pages}, {ref.year}."


def springer(ref: Printed) -> str:
    names = ", ".join(f"{family} {initials(given, '', '')}" for family, given in ref.authors)
    return f"{names} ({ref.year}) {ref.title.rstrip('?')}. {ref.venue} {ref.volume}:{ref.pages}"


def jss(ref: Printed) -> str:
    names = ", ".join(f"{family} {initials(given, '', '')}" for family, given in ref.authors)
    return f"{names} ({ref.year}). “{ref.title}.” {ref.venue}, {ref.volume}(2), {ref.pages}."


def chicago(ref: Printed) -> str:
    (family, given), *others = ref.authors
    names = joined([f"{family}, {given}", *(f"{given} {family}" for family, given in others)], ", and ")
    return f"{names}. {ref.year}. “{ref.title}.” {ref.venue} {ref.volume} (2): {ref.pages}."


def aas(ref: Printed) -> str:
    names = joined([f"{family}, {initials(given)}" for family, given in ref.authors], ", & ")
    return f"{names} {ref.year}, {ref.venue}, {ref.volume}, {ref.pages.partition('–')[0]}"


def ieee(ref: Printed) -> str:
    names = joined([f"{initials(given)} {family}" for family, given in ref.authors], ", and ")
    doi = f", doi: {ref.doi}" if ref.doi else ""
    return f"{names}, “{ref.title},” {ref.venue}, vol. {ref.volume}, no. 2, pp. {ref.pages}, {ref.year}{doi}."


def plain(ref: Printed) -> str:
    names = joined(
        [f"{initials(given)} {family}" for family, given in ref.authors],
        ", and " if len(ref.authors) > 2 else " and ",
    )
    return f"{names}. {ref.title.rstrip('?')}. {ref.venue}, {ref.volume}(2):{ref.pages}, {ref.year}."


def vancouver(ref: Printed) -> str:
    names = ", ".join(f"{family} {initials(given, '', '')}" for family, given in ref.authors)
    doi = f" doi:{ref.doi}" if ref.doi else ""
    return f"{names}. {ref.title.rstrip('?')}. {ref.venue}. {ref.year};{ref.volume}(2):{ref.pages}.{doi}"


def bmc(ref: Printed) -> str:
    names = ", ".join(f"{family} {initials(given, '', '')}" for family, given in ref.authors)
    return f"{names}: {ref.title.rstrip('?')}. {ref.venue} {ref.year}, {ref.volume}:{ref.pages}."


def lncs(ref: Printed) -> str:
    names = ", ".join(f"{family}, {initials(given)}" for family, given in ref.authors)
    return f"{names}: {ref.title.rstrip('?')}. {ref.venue} {ref.volume}(2), {ref.pages} ({ref.year})"


def physics(ref: Printed) -> str:
    names = joined([f"{initials(given)} {family}" for family, given in ref.authors], ", and ")
    return f"{names}, {ref.venue} {ref.volume}, {ref.pages.partition('–')[0]} ({ref.year})."


def german(ref: Printed) -> str:
    names = "; ".join(f"{family}, {given}" for family, given in ref.authors)
    return f"{names} ({ref.year}): {ref.title}. In: {ref.venue} {ref.volume}, S. {ref.pages}."


def first_reversed(ref: Printed, last: str) -> str:
    """`Abel, Ann, Bo Cole, and Carl Dunn`."""
    (family, given), *others = ref.authors
    return joined([f"{family}, {given}", *(f"{given} {family}" for family, given in others)], last)


def mla(ref: Printed) -> str:
    end = "" if ref.title.endswith("?") else "."
    where = f"{ref.venue}, vol. {ref.volume}, no. 2, {ref.year}, pp. {ref.pages}"
    return f"{first_reversed(ref, ', and ')}. “{ref.title}{end}” {where}."


def chicago_notes(ref: Printed) -> str:
    end = "" if ref.title.endswith("?") else "."
    where = f"{ref.venue} {ref.volume}, no. 2 ({ref.year}): {ref.pages}"
    return f"{first_reversed(ref, ', and ')}. “{ref.title}{end}” {where}."


def mhra(ref: Printed) -> str:
    where = f"{ref.venue}, {ref.volume}.2 ({ref.year}), {ref.pages}"
    return f"{first_reversed(ref, ' and ')}, ‘{ref.title}’, {where}"


def semicolons(ref: Printed) -> str:
    names = "; ".join(f"{family}, {initials(given)}" for family, given in ref.authors)
    end = "" if ref.title.endswith("?") else "."
    return f"{names} ({ref.year}) {ref.title}{end} {ref.venue}, {ref.volume}(2), {ref.pages}."


def din(ref: Printed) -> str:
    names = "; ".join(f"{family.upper()}, {given}" for family, given in ref.authors)
    return f"{names}: {ref.title}. In: {ref.venue} {ref.volume} ({ref.year}), Nr. 2, S. {ref.pages}"


def mdpi(ref: Printed) -> str:
    names = "; ".join(f"{family}, {initials(given)}" for family, given in ref.authors)
    end = "" if ref.title.endswith("?") else "."
    return f"{names} {ref.title}{end} {ref.venue} {ref.year}, {ref.volume}, {ref.pages}."


def abnt(ref: Printed) -> str:
    names = "; ".join(f"{family.upper()}, {initials(given)}" for family, given in ref.authors)
    end = "" if ref.title.endswith("?") else "."
    return f"{names} {ref.title}{end} {ref.venue}, v. {ref.volume}, n. 2, p. {ref.pages}, {ref.year}."


def gost(ref: Printed) -> str:
    names = ", ".join(f"{family} {initials(given)}" for family, given in ref.authors)
    return f"{names} {ref.title} // {ref.venue}. {ref.year}. Vol. {ref.volume}, no. 2. P. {ref.pages}."


AUTHOR_YEAR: Mapping[str, Callable[[Printed], str]] = {
    "APA": apa, "ACL": acl, "ICML": icml, "Springer": springer, "JSS": jss, "Chicago": chicago,
    "AAS": aas, "German": german, "MLA": mla, "notes": chicago_notes, "MHRA": mhra, "semicolons": semicolons,
    "DIN": din,
}  # fmt: skip
NUMBERED: Mapping[str, Callable[[Printed], str]] = {
    "IEEE": ieee, "plain": plain, "Vancouver": vancouver, "BMC": bmc, "LNCS": lncs, "physics": physics,
    "MDPI": mdpi, "ABNT": abnt, "GOST": gost,
}  # fmt: skip

IN_CAPITALS = ("DIN", "ABNT")
"""Styles that print family names in capitals."""

WITHOUT_TITLE = ("AAS", "physics")
"""Styles that print no title."""


def printed(refs: Sequence[Printed], style: str, width: int = 88, marker: str = "[{n}] ") -> list[str]:
    """The lines of a list, those of author-year styles without markers and in the order of their names."""
    write, marker = (AUTHOR_YEAR[style], "") if style in AUTHOR_YEAR else (NUMBERED[style], marker)
    entries = [write(ref) for ref in (sorted(refs, key=lambda ref: ref.authors) if not marker else refs)]
    return [
        line
        for n, entry in enumerate(entries, 1)
        for line in textwrap.wrap(
            marker.format(n=n) + entry, width, break_long_words=False, break_on_hyphens=False
        )
    ]
