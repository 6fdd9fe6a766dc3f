"""An analysis without a model: the printed abstract, and the most important sentences.

The result consists of the paper's own words. Sentences are ranked by latent semantic analysis (sumy),
but split and tokenised by our own rules: sumy's tokenizer needs a download, and supports neither
Chinese nor Japanese.
"""

# ruff: noqa: RUF001 - full-width and typographic signs are what papers print

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from pipeline.steps.extract.references import unbroken

MAX_SENTENCES = 300
"""Sentences that are ranked: the matrix grows with words times sentences, and 300 take under a second."""

LONGEST = 450
"""Characters of the longest selected sentence; longer ones are lists or broken tables."""

MAX_CHARS = 400_000
"""Characters read: about 100 pages of a paper, or the first chapters of a book."""

ABSTRACT_CHARS = 2_000
"""A printed abstract is rarely longer; further text is the introduction."""

CJK = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"

IN_CJK = re.compile(f"[{CJK}]")

SHORTEST_CJK = 15
"""Characters of the shortest sentence that may be selected, in Chinese, Japanese or Korean."""

SENTENCE_END = re.compile(r"(?<=[.!?])[\"”’)]?\s+(?=[\"“‘(]?[^\W\d_a-z])|(?<=[。！？])")
ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|al|figs?|eqs?|refs?|secs?|no|vol|pp|dr|prof|mr|ms|st|approx|resp)|"
    r"\b[A-Z])\.$",
    re.IGNORECASE,
)
WORD = re.compile(rf"[^\W\d_{CJK}][^\W\d_{CJK}'’-]{{2,}}|[{CJK}]{{2,}}")
CAPTION = re.compile(r"^(?:fig(?:ure)?|table|tab|algorithm|listing|scheme|图|圖|表)\.?\s*\d", re.I)

HEADING = re.compile(r"^(?:\d{1,2}(?:\.\d{1,2})*\.?\s+)?[A-Z][^.!?,;]{2,60}$")
JOURNAL = re.compile(
    r"\(?\b(?:19|20)\d\d\b|\bdoi\b|https?:|\bissn\b|\bvol(?:ume)?\b|licen[sc]e|arxiv|^journal\b|"
    r"proceedings|open access|^european organi[sz]ation|"
    r"^(?:submitted|prepared|accepted) (?:to|for|by)\b|"
    r"^preprint\b|"
    r"^(?:research|review|original|technical|short|case) (?:article|paper|report|research|note)s?$",
    re.I,
)
"""Lines above a title: the journal, its number, the licence, the kind of article."""

MORE_TITLE_LINES = 3
TITLE_OPEN = re.compile(r"(?:[:–-]|\b(?:of|the|an?|and|for|with|in|on|to|by|from|via|using))$", re.I)
NO_TITLE = re.compile(r"@|https?:|\d\s*[,*]|^(?:abstract|summary|keywords)\b|[^\W\d_]\d\b", re.I)
"""Addresses, names with footnote marks, and the headings after a title."""

ABSTRACT = re.compile(r"^\s*(?:abstract|summary|摘\s*要|概\s*要|要\s*旨|초\s*록)\b\s*[.:：—–-]*\s*", re.I)
ABSTRACT_END = re.compile(
    r"^\s*(?:(?:\d{1,2}|I)[.．]?\s*)?(?:introduction|keywords?|key\s+words|index\s+terms|ccs\s+concepts|"
    r"statement\s+of\s+need|background|引言|绪论|緒論|はじめに|序論|关键词|關鍵詞|キーワード|서론)\b",
    re.I,
)
KEYWORDS = re.compile(
    r"^\s*(?:keywords?|key\s+words|index\s+terms|关键词|關鍵詞|キーワード)\s*[:：.—–-]+\s*(.+)$", re.I
)
CLAIM = re.compile(
    r"\b(?:we|this (?:paper|work|article|study)|our (?:method|approach|main|results?))\b.{0,25}"
    r"\b(?:propose|present|introduce|show|demonstrate|describe|develop|contribute|report|find|"
    r"provide|release|prove|derive)|本文|本研究|我们提出|我們提出|提案する|本論文",
    re.I,
)

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """about above after again against all also although among and any are because been before
    being below between both but can cannot could did does doing down during each either etc few
    for from further given had has have having hence her here hers him his how however into its
    itself just let may might more moreover most much must nor not now off once one only other our
    ours out over own per same shall she should since some such than that the their theirs them
    then there therefore these they this those through thus too two under until upon use used
    uses using very via was were what when where whereas whether which while who whom why will
    with within without would yet you your figure table section equation results result et new
    first second based different several many well able case cases make made""",
    )
)


def extractive_analysis(text: str, title_hint: str, sentences: int) -> dict[str, Any]:
    """The fields of an `Analysis`, from a paper's text without its references."""
    lines = [line.strip() for line in text[:MAX_CHARS].split("\n") if line.strip()]
    abstract, body = abstract_and_body(lines)
    found = split_sentences(unbroken(without_headings(body)))
    candidates = list(filter(is_prose, found))[:MAX_SENTENCES]
    ranked = best_sentences(candidates, sentences)
    return {
        "title": title_hint.strip() or first_title(lines),
        "summary": "\n\n".join(filter(None, (abstract, " ".join(ranked)))) or fallback(lines),
        "keywords": printed_keywords(lines) or frequent_terms(unbroken(lines)),
        "contributions": claims(split_sentences(abstract), candidates),
    }


def abstract_and_body(lines: Sequence[str]) -> tuple[str, list[str]]:
    """The printed abstract ("" if there is none) and the lines after it, without the names and addresses
    before it."""
    start = next((i for i, line in enumerate(lines[:120]) if ABSTRACT.match(line)), None)
    if start is None:
        return "", list(lines)
    taken = [ABSTRACT.sub("", lines[start])]
    end = start + 1
    while end < len(lines) and not ABSTRACT_END.match(lines[end]) and size(taken) < ABSTRACT_CHARS:
        taken.append(lines[end])
        end += 1
    return whole_sentences(unbroken(taken)), list(lines[end:])


def without_headings(lines: Sequence[str]) -> Iterator[str]:
    """The lines except headings: short, unpunctuated, between the end of a sentence and a capital."""
    for before, line, after in zip((".", *lines), lines, (*lines[1:], "."), strict=False):
        ends, starts = before[-1] in ".!?:", not after[0].islower()
        furniture = ABSTRACT_END.fullmatch(line) or KEYWORDS.match(line)
        if not (furniture or (ends and starts and HEADING.match(line))):
            yield line


def size(lines: Iterable[str]) -> int:
    return sum(map(len, lines))


def whole_sentences(text: str) -> str:
    """At most `ABSTRACT_CHARS`, without cutting a sentence."""
    text = text.strip()[:ABSTRACT_CHARS]
    end = max(text.rfind(mark) for mark in ".!?。！？")
    return text[: end + 1] if end > 0 else text


def split_sentences(text: str) -> list[str]:
    """Sentences of running text; a piece that ends in an abbreviation is joined with the next."""
    sentences: list[str] = []
    for piece in SENTENCE_END.split(text):
        open_end = sentences and len(sentences[-1]) < LONGEST and sentences[-1].endswith(".")
        if open_end and ABBREVIATION.search(sentences[-1][-12:]):
            sentences[-1] += " " + piece.strip()
        elif piece.strip():
            sentences.append(piece.strip())
    return sentences


def is_prose(sentence: str) -> bool:
    """Whether it is a sentence, not a caption, formula, address, or line of a table."""
    if not SHORTEST_CJK <= len(sentence) <= LONGEST:
        return False
    shortest, longest = (SHORTEST_CJK, 250) if IN_CJK.search(sentence) else (50, LONGEST)
    letters = sum(char.isalpha() for char in sentence)
    return (
        shortest <= len(sentence) <= longest
        and letters > 0.7 * len(sentence.replace(" ", ""))
        and sentence[-1] in ".!?。！？”)"
        and not CAPTION.match(sentence)
        and not re.search(r"@|https?:|doi\.org", sentence)
    )


def best_sentences(candidates: Sequence[str], count: int) -> list[str]:
    """The most important sentences, in the order of the paper."""
    if len(candidates) <= count:
        return list(candidates)
    # Imported here: numpy and nltk take most of a second.
    from sumy.models.dom import ObjectDocumentModel, Paragraph, Sentence
    from sumy.summarizers.lsa import LsaSummarizer

    vocabulary = {word for sentence in candidates for word in words_of(sentence)}
    if len(vocabulary) <= len(candidates):  # too repetitive to rank
        return list(candidates[:count])
    sentences = [Sentence(text, Words()) for text in candidates]
    document = ObjectDocumentModel([Paragraph(sentences)])
    return [str(sentence) for sentence in LsaSummarizer()(document, count)]


class Words:
    """The tokenizer interface that sumy requires."""

    def to_words(self, sentence: str) -> tuple[str, ...]:
        return tuple(words_of(sentence))


def words_of(sentence: str) -> Iterator[str]:
    """Lower-case words without stop words; for scripts without spaces, pairs of characters."""
    for word in WORD.findall(sentence.lower()):
        if IN_CJK.match(word):
            yield from map("".join, pairwise(word))
        elif word not in STOP_WORDS:
            yield word


def first_title(lines: Sequence[str]) -> str:
    """The first line that may be a title, with its continuation lines; else the first line, if any."""
    if not lines:
        return ""
    at = next((i for i, line in enumerate(lines[:15]) if could_be_title(line)), 0)
    title = lines[at][:250]
    for line in lines[at + 1 : at + 1 + MORE_TITLE_LINES]:
        if not continues(title, line):
            break
        title = f"{title} {line}"
    return title


def continues(title: str, line: str) -> bool:
    """Whether a title continues in this line: it ends in a word that cannot end a title, or the line
    starts with a lower-case letter, unlike authors and headings."""
    started = bool(TITLE_OPEN.search(title)) or line[0].islower()
    return started and len(line) < 120 and not NO_TITLE.search(line)


def could_be_title(line: str) -> bool:
    return sum(map(str.isalpha, line)) > 7 and not JOURNAL.search(line)


def fallback(lines: Sequence[str]) -> str:
    """The beginning of a document without sentences (a table, slides, a poster)."""
    return unbroken(lines)[:600].strip()


def claims(abstract: Sequence[str], body: Sequence[str]) -> list[str]:
    """Up to five sentences in which the paper states its contribution, those of the abstract first."""
    found = [sentence for sentence in (*abstract, *body) if CLAIM.search(sentence)]
    return list(dict.fromkeys(found))[:5]


def printed_keywords(lines: Sequence[str]) -> list[str]:
    """The keywords printed in the paper."""
    for i, line in enumerate(lines[:150]):
        if match := KEYWORDS.match(line):
            found = re.split(r"[,;，；、·•]|\s{2,}", whole_list(match[1], lines[i + 1 : i + 4]))
            return [word.strip(" .") for word in found if word.strip(" .")][:10]
    return []


def whole_list(begun: str, following: Sequence[str]) -> str:
    """A list with the lines in which it continues: those after a comma or a hyphen."""
    for line in following:
        if not begun.endswith((",", ";", "，", "；", "-")):
            break
        begun = unbroken((begun, line))
    return begun


def frequent_terms(text: str, count: int = 8) -> list[str]:
    """The most frequent words and pairs of words, none part of another."""
    words = list(words_of(text))
    scores = Counter(words)
    scores.update({" ".join(pair): 2 * n for pair, n in Counter(pairs(text)).items() if n > 2})
    chosen: list[str] = []
    for term, times in scores.most_common(100):
        if times > 1 and not any(term in other or other in term for other in chosen):
            chosen.append(term)
    return chosen[:count]


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Consecutive words of a sentence, for scripts with spaces."""
    for sentence in split_sentences(text):
        if len(sentence) >= SHORTEST_PAIR:
            yield from pairwise(word for word in words_of(sentence) if not IN_CJK.match(word))


SHORTEST_PAIR = 7
"""Characters of two words, which have three each."""
