r"""Entries as BibTeX, as Zotero and JabRef write and read it: UTF-8, one field a line. Pure.

BibTeX counts braces, escaped ones too, so no brace or backslash of a text is written as such:
`\textbraceleft{}` stands for it. DOIs and addresses are verbatim, as in those programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from pipeline.steps.bibliography.entry import Entry, Kind, Name

TYPES: Mapping[Kind, str] = {
    "article": "article", "conference": "inproceedings", "preprint": "misc", "other": "misc",
}  # fmt: skip

SIGNS = str.maketrans({
    "\\": r"\textbackslash{}", "{": r"\textbraceleft{}", "}": r"\textbraceright{}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "_": r"\_",
})  # fmt: skip
LIGATURE = re.compile(r"(?<=([-'`,<>]))(?=\1)|(?<=[?!])(?=`)")
"""Between signs that LaTeX would draw as another one: `--`, a quotation mark of two, an inverted `?`."""

RANGE = re.compile(r"\s*[-\u2013\u2014]+\s*")
VERBATIM = re.compile(r"[^{}\\%\s]*")


def bibtex(entry: Entry) -> str:
    """One entry, with an empty line after it."""
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields(entry) if value)
    return f"@{TYPES[entry.kind]}{{{entry.key},\n{lines}}}\n\n"


def fields(entry: Entry) -> Iterator[tuple[str, str]]:
    """Names and values, written."""
    yield "title", " ".join(map(protected, entry.title.split()))
    yield "author", " and ".join(map(author, entry.authors))
    yield "year", str(entry.year or "")
    yield "booktitle" if entry.kind == "conference" else "journal", escaped(entry.venue)
    yield "volume", escaped(entry.volume)
    yield "number", escaped(entry.issue)
    yield "pages", "--".join(map(escaped, RANGE.split(entry.page)))
    yield "publisher", escaped(entry.publisher)
    yield "doi", verbatim(entry.doi)
    yield "eprint", verbatim(entry.arxiv_id)
    yield "archiveprefix", "arXiv" if entry.arxiv_id else ""
    yield "url", verbatim(entry.url)
    yield "abstract", escaped(entry.abstract)
    yield "keywords", escaped(", ".join(entry.keywords))
    yield "note", escaped(entry.note)


def escaped(text: str) -> str:
    """A text that LaTeX prints as it is."""
    return LIGATURE.sub("\0", text.replace("\0", "")).translate(SIGNS).replace("\0", "{}")


def protected(word: str) -> str:
    """A word of a title: one with a capital letter inside in braces, since styles lower the others."""
    rest = word[1:]
    has_capital = rest != rest.lower() and any(map(str.isupper, rest))
    return f"{{{escaped(word)}}}" if has_capital else escaped(word)


def author(name: Name) -> str:
    """`Family, Given`; a group, and what would be split otherwise, in braces."""
    family, given = escaped(name.family), escaped(name.given)
    if not given:
        return f"{{{family}}}" if " " in family or "," in family else family
    return f"{_kept(family)}, {_kept(given)}"


def _kept(part: str) -> str:
    separates = "," in part or " and " in f" {part} ".lower()
    return f"{{{part}}}" if separates else part


def verbatim(text: str) -> str:
    """A DOI or an address, its braces and backslashes encoded as in a URL."""
    return text if VERBATIM.fullmatch(text) else quote(text, safe="/:?#[]@!$&'()*+,;=-._~<>|")
