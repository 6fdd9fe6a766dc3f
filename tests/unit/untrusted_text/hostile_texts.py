"""Kinds of text that make careless code slow, each of any size."""

from __future__ import annotations

from collections.abc import Callable, Mapping

UNITS = {
    "blanks": " ", "no-break spaces": "\u00a0", "tabs": "\t", "line ends": "\n", "carriage returns": "\r\n",
    "one word": "a", "capitals": "A", "digits": "7", "words": "abc ", "capital words": "Abc ",
    "full stops": ".", "dots and brackets": ".)", "closing brackets": ")", "opening brackets": "(",
    "nested brackets": "([", "square brackets": "]", "angle brackets": "<", "tags": "<title>",
    "closed tags": "<a b='c'>", "comments": "<!--", "declarations": "<![", "closing tags": "</",
    "entities": "&amp;", "ampersands": "&", "braces": "{", "JSON lists": "[", "JSON objects": '{"a":',
    "quotes": '"', "apostrophes": "'", "opened quotes": '" ', "commas": ",", "semicolons": ";",
    "colons": ":", "slashes": "/", "backslashes": "\\", "dashes": "-", "soft hyphens": "\u00ad",
    "underscores": "_", "stars": "*", "backticks": "`", "hashes": "#", "percents": "%", "escapes": "%41",
    "at signs": "@", "addresses": "a@b.", "schemes": "http://", "URLs": "http://a:b@", "paths": "/a",
    "DOIs": "10.1234/a ", "DOI starts": "10.1234/", "arXiv ids": "arXiv:2101.00001 ", "years": "(2004). ",
    "initials": "A. ", "names": "Abel, A. ", "numbered lines": "[1]\n", "labels": "[Abc04] ",
    "reference lines": "[1] A. Abel, 2004.\n", "short lines": "a\n", "page marks": "[PAGE 1]\n",
    "spaced letters": "R E F ", "combining characters": "a\u0301", "surrogates": "\ud800", "NULs": "\x00",
    "Chinese": "\u4e2d", "Chinese with blanks": "\u4e2d ", "Japanese stops": "\u3002",
    "full-width": "\uff21", "right-to-left": "\u05d0\u202e", "emoji": "\U0001f600", "ligatures": "\ufb03",
    "hyphens at line ends": "ab-\n", "marks of think": "<think>", "long numbers": "1" * 400 + " ",
    "version dots": "1.", "equations": "(a=b)", "endless passwords": "://a:", "almost lists": "1. a\n",
}  # fmt: skip


def repeated(unit: str) -> Callable[[int], str]:
    return lambda size: unit * (size // len(unit))


def ended(unit: str) -> Callable[[int], str]:
    """What looks like an end of what was repeated, but is none."""
    return lambda size: unit * (size // len(unit)) + "\x01b"


def between(unit: str) -> Callable[[int], str]:
    return lambda size: "b" + unit * (size // len(unit)) + "b"


def nested(size: int) -> str:
    return "(" * (size // 2) + ")" * (size // 2)


def different_lines(size: int) -> str:
    """Lines of which no two are alike."""
    return "".join(f"line {n:x} of words.\n" for n in range(size // 20))


def pages(size: int) -> str:
    """Pages of lines that all differ: an honest long book."""
    page = 60 * 20
    return "".join(
        f"[PAGE {p + 1}]\n" + "".join(f"{chr(97 + p % 26)}{n} line of page {p:x}\n" for n in range(60))
        for p in range(max(1, size // page))
    )


def zones(cheap: str, dear: str) -> Callable[[int], str]:
    """In turn: what one of these is like says nothing about the next."""

    def made(size: int) -> str:
        zone = max(1, size // 25)
        pair = "".join((UNITS[kind] * zone)[:zone] for kind in (cheap, dear))
        return pair * (size // len(pair))

    return made


ZONES: Mapping[str, Callable[[int], str]] = {
    f"zones of {cheap} and {dear}": zones(cheap, dear)
    for cheap, dear in (
        ("stars", "arXiv ids"), ("hashes", "emoji"), ("dashes", "capital words"), ("tabs", "version dots"),
    )
}  # fmt: skip
"""Of a million characters and more, each zone is longer than what is read at a time: 40,000 characters."""

HOSTILE: Mapping[str, Callable[[int], str]] = {
    **{name: repeated(unit) for name, unit in UNITS.items()},
    **{f"{name}, then an end": ended(unit) for name, unit in UNITS.items()},
    **{f"{name} between letters": between(unit) for name, unit in UNITS.items()},
    "nested pairs": nested,
    "lines that differ": different_lines,
    "pages of lines that differ": pages,
    **ZONES,
}
