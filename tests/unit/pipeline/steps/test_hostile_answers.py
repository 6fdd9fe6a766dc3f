"""Whatever a service, a model or a page puts into an answer, it is read or refused, and can be stored."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

import pipeline
from pipeline.steps.analyse.answers import BadAnalysis, parsed, plain
from pipeline.steps.fetch.landing_page import pdf_link
from pipeline.steps.fetch.partial_file import looks_like
from pipeline.steps.identify import identify
from pipeline.steps.llm.endpoint import Endpoint
from pipeline.steps.llm.response import read_by
from pipeline.steps.resolve.sources.arxiv import ARXIV
from pipeline.steps.resolve.sources.crossref import CROSSREF
from pipeline.steps.resolve.sources.openalex import OPENALEX
from pipeline.steps.resolve.sources.semanticscholar import SEMANTIC_SCHOLAR
from pipeline.steps.resolve.sources.source import Source
from pipeline.steps.resolve.sources.unpaywall import UNPAYWALL
from queuemgr import StepFailed

BIGGEST_COLUMN = 2**63 - 1
ANSWERS_ADDED_UP = 1_000_000
PAPER = identify("10.1234/x")
PREPRINT = identify("arXiv:2101.00001")


NUMBERED = count()


def nested(levels: int, value: Any = 1, *, as_object: bool = False) -> Any:
    for _ in range(levels):
        value = {"a": value} if as_object else [value]
    return value


NUMBERS = (
    0,
    -1,
    True,
    0.5,
    2**31,
    2**63,
    10**30,
    10**4_000,
    1e308,
    float("inf"),
    float("-inf"),
    float("nan"),
)
TEXTS = (
    "", " ", "\0", "a\0b", "\ud800", "a\udfffb", "\u202e", "\x1b[2J", "\n", "\x85\u2028", "e\u0301" * 200,
    "x" * 100_000, "9" * 5_000, "&#" + "9" * 5_000 + ";", "&#x" + "f" * 5_000 + ";", "&#0;", "&#xd800;",
    "&" * 5_000, "\u0662\u0660\u0662\u0664", "1\u0662\u0663\u0664", "\u00b2", "2024-99-99",
    "10.1234/" + "(" * 500, "10.1234/\0", "http://", "http://[", "http://[::1", "http://h:99999/",
    "http://h/\0", "http://h/\ud800", "http://h/\x1b", "https://\u00e9\u200d.example/", "http://u:p@h/",
    "http://" + "a" * 3_900, "javascript:alert(1)",
    "2101.00001\ud800", "429", "<i>" * 5_000,
)  # fmt: skip
OTHERS = (
    None, [], {}, [[]], [None], [{}], {"": ""}, {"a": None}, nested(300), nested(900),
    nested(900, as_object=True),    ["x"] * 5_000, [{"name": "x"}] * 5_000, [nested(50)],
)  # fmt: skip
VALUES: tuple[Any, ...] = (*NUMBERS, *TEXTS, *OTHERS)
"""Put in the place of each part of an answer."""

SOURCES: dict[Source, dict[str, Any]] = {
    CROSSREF: {
        "message": {
            "title": ["t"], "author": [{"given": "a", "family": "b", "name": "c"}], "DOI": "10.1234/x",
            "published": {"date-parts": [[2020, 1]]}, "license": [{"URL": "http://l"}],
            "link": [{"URL": "http://x/a.pdf", "content-type": "application/pdf"}],
            "resource": {"primary": {"URL": "http://x"}},
        }
    },
    OPENALEX: {
        "title": "t", "doi": "10.1234/x", "publication_year": 2020, "open_access": {"oa_status": "gold"},
        "authorships": [{"author": {"display_name": "a"}}],
        "best_oa_location": {"pdf_url": "http://x", "landing_page_url": "http://y", "license": "l"},
        "locations": [{"pdf_url": "http://z", "is_oa": True}],
    },
    UNPAYWALL: {
        "title": "t", "doi": "10.1234/x", "year": 2020, "oa_status": "gold", "is_oa": True,
        "z_authors": [{"given": "a", "family": "b"}], "published_date": "2020-01-01",
        "best_oa_location": {"url_for_pdf": "http://x", "url_for_landing_page": "http://y", "license": "l"},
        "oa_locations": [{"url_for_pdf": "http://z", "url": "http://w"}],
    },
    SEMANTIC_SCHOLAR: {
        "title": "t", "year": 2020, "authors": [{"name": "a"}],
        "openAccessPdf": {"url": "http://x", "status": "GOLD"},
        "externalIds": {"DOI": "10.1234/x", "ArXiv": "2101.00001"},
    },
}  # fmt: skip

CHOICE = {
    "message": {"content": "x", "refusal": None, "tool_calls": None},
    "finish_reason": "stop",
    "error": None,
}
ANSWERS: tuple[dict[str, Any], ...] = (
    {"choices": [CHOICE], "usage": {"prompt_tokens": 1, "completion_tokens": 1}, "model": "m"},
    {"error": {"message": "m", "type": "t", "code": 1, "status": 2}, "usage": {"prompt_tokens": 1}},
    {"error": "m", "code": 429, "message": "m", "status": 1},
)
ANALYSIS = {"title": "t", "summary": "s", "keywords": ["k"], "contributions": ["c"]}


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield above
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield from places(each, (*above, name))


def with_value(whole: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    changed = inner = copy.deepcopy(whole)
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    return changed


def changed(whole: Any) -> Iterator[bytes]:
    """The JSON with each value in each place, and cut off, and none."""
    for place in places(whole):
        for value in VALUES:
            yield as_json(with_value(whole, place, value))
    text = json.dumps(whole).encode()
    yield from (
        b"",
        b"\xff",
        text[:-1],
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"9" * 5_000,
        text.decode().encode("utf-16"),
    )


def as_json(value: Any) -> bytes:
    """Also of numbers that Python would refuse to write."""
    if isinstance(value, int) and abs(value) >= 10**4_000:
        return b"1" + b"0" * 4_000
    return json.dumps(value).encode()


def refused(read: Callable[[], Any]) -> Any:
    """What it reads, or None if it refuses; what else it raises, a test fails with."""
    try:
        return read()
    except (StepFailed, BadAnalysis) as refusal:
        assert_storable(str(refusal))
        return None


def assert_storable(value: Any) -> None:
    """JSON that PostgreSQL takes: no NUL, no half character, no number that is none."""
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    assert not any("\0" in text for text in texts_in(value))


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    inner = [*value, *value.values()] if isinstance(value, dict) else value
    for each in inner if isinstance(inner, list | tuple) else ():
        yield from texts_in(each)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_an_answer_of_a_source_is_read_or_refused_whatever_is_in_it(source: Source) -> None:
    for body in changed(SOURCES[source]):
        answer = refused(lambda body=body: source.read(body, PAPER))
        if answer is not None:
            assert_storable(answer.to_json())


BIGGEST_ROW = 500_000


def swollen(value: Any) -> Any:
    """With every list repeated and every text lengthened, each by something of its own."""
    if isinstance(value, list):
        return [swollen(each) for each in value for _ in range(250)]
    if isinstance(value, dict):
        return {name: swollen(each) for name, each in value.items()}
    lengthened = f"{value}/{next(NUMBERED)}" + "x" * 3_000
    return lengthened if isinstance(value, str) and value not in ("application/pdf", "gold") else value


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_what_is_kept_of_an_answer_is_small_however_large_it_is(source: Source) -> None:
    answer = source.read(json.dumps(swollen(SOURCES[source])).encode(), PAPER)
    assert len(json.dumps(answer.to_json())) < BIGGEST_ROW


def test_every_source_is_tried() -> None:
    folder = Path(pipeline.__path__[0], "steps/resolve/sources")
    made = [path for path in folder.glob("*.py") if "= Source(" in path.read_text()]
    assert len(made) == len({*SOURCES, ARXIV})


@pytest.mark.parametrize("status", [200, 400, 429, 500])
@pytest.mark.parametrize("answer", ANSWERS, ids=["answer", "error", "text"])
def test_an_answer_of_a_model_is_read_or_refused_whatever_is_in_it(
    answer: dict[str, Any], status: int
) -> None:
    endpoint = Endpoint("http://model", "m", "key")
    for body in changed(answer):
        response = httpx.Response(status, content=body)
        found = refused(lambda response=response: read_by(response, endpoint, [{"content": "asked"}]))
        if found is not None:
            assert 0 <= max(found.used) <= BIGGEST_COLUMN // ANSWERS_ADDED_UP
            said = found.answer
            assert_storable([str(said)] if isinstance(said, StepFailed) else [said.model])


def test_an_analysis_is_read_or_refused_whatever_is_in_it() -> None:
    for body in changed(ANALYSIS):
        for text in (body.decode("utf-8", "replace"), "\ud800\0" + body.decode("latin-1")):
            found = refused(lambda text=text: parsed(text))
            if found is not None:
                assert_storable(found.model_dump())
            assert_storable(refused(lambda text=text: plain(text)))


@pytest.mark.parametrize(
    "text", [text for text in TEXTS if isinstance(text, str)], ids=lambda text: repr(text)[:20]
)
def test_a_page_is_read_whatever_is_in_its_title_its_text_and_its_links(text: str) -> None:
    written = text.encode("utf-8", "surrogatepass")
    for page in (
        b"<html><title>" + written + b"</title>",
        b"<html>" + written + b'<meta name="citation_pdf_url" content="/a.pdf">',
    ):
        assert "HTML" in looks_like(page)
    link = b'<meta name="citation_pdf_url" content="/a.pdf">'
    assert pdf_link(b"<html><title>" + written + b"</title>" + link, "http://h/") == "http://h/a.pdf"
    pdf_link(b'<html><meta name="citation_pdf_url" content="' + written + b'">', "http://h/")
    pdf_link(b'<html><base href="' + written + b'">' + link, "http://h/")


ATOM = '<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>http://arxiv.org/abs/2101.00001v1</id><title>{}</title></entry></feed>'
ENTITY = '<!DOCTYPE feed [<!ENTITY a "{}">]>'


ENCODINGS = (
    "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-7", "iso-8859-1", "us-ascii",
    "cp037", "cp500", "cp1252", "koi8-r",
)  # fmt: skip


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_feed_defines_no_entity_in_whatever_encoding(encoding: str) -> None:
    for declared in (f'<?xml version="1.0" encoding="{encoding}"?>', ""):
        for padding in ("", " " * 2_000):
            text = padding + ENTITY.format("defined") + ATOM.format("&a;")
            for body in ((declared + text).encode(encoding), declared.encode() + text.encode(encoding)):
                with pytest.raises(StepFailed):
                    ARXIV.read(body, PREPRINT)


def test_a_feed_is_read_or_refused_whatever_is_in_it() -> None:
    for text in TEXTS:
        for body in (ATOM.format(text), ATOM.replace("2101.00001v1", "{}").format(text, "t"), text):
            answer = refused(lambda body=body: ARXIV.read(body.encode("utf-8", "surrogatepass"), PREPRINT))
            if answer is not None:
                assert_storable(answer.to_json())


def test_character_references_are_read_in_one_place() -> None:
    """Python's own function raises for numbers of more than 4,300 digits."""
    found = [
        path.name
        for path in Path(pipeline.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "unescape"
    ]
    assert found == ["character_references.py"]
