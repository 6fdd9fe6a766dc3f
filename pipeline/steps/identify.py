"""Identify a document by user input: an arXiv id, a DOI, a URL or a file.

Not a step, but shared by the intake and several steps. Pure: uses neither the network nor the disk. Two
spellings of one document get one key.
"""

from __future__ import annotations

import ipaddress
import os.path
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from pipeline.steps.closing_brackets import without_closing
from queuemgr import BadInput

if TYPE_CHECKING:
    from httpx import URL

Kind = Literal["arxiv", "doi", "url", "file"]

MAX_LENGTH = 4096
"""Characters: the longest path that Linux accepts, and longer than any usable URL."""

LONGEST_AUTHORITY = 1000
"""Characters: no name of a host has more than 253, with its port and whatever is refused beside it."""

MAX_ROUNDS = 3
"""How often the spelling that was found may change when it is read again."""

_BLANKS = "\ufeff\u200b" + "".join(filter(str.isspace, map(chr, range(0x3001))))

_ARCHIVES = (
    "acc-phys|adap-org|alg-geom|ao-sci|astro-ph|atom-ph|bayes-an|chao-dyn|chem-ph|cmp-lg|comp-gas|"
    "cond-mat|cs|dg-ga|funct-an|gr-qc|hep-ex|hep-lat|hep-ph|hep-th|math|math-ph|mtrl-th|nlin|"
    "nucl-ex|nucl-th|patt-sol|physics|plasm-ph|q-alg|q-bio|quant-ph|solv-int|supr-con"
)
"""The archives in arXiv ids before April 2007; they distinguish `math/0309136` from a path."""

_ASCII = re.IGNORECASE | re.ASCII
_NEW_ID = re.compile(r"(\d{4})\.(\d{4,5})(?:v(\d+))?", _ASCII)
_OLD_ID = re.compile(rf"({_ARCHIVES})(?:\.[a-z-]+)?/(\d{{4}})(\d{{3}})(?:v(\d+))?", _ASCII)
_ARXIV_PREFIX = re.compile(r"arxiv:\s*", _ASCII)
_ARXIV_PATH = re.compile(r"/(?:abs|pdf|html|ps|format|src|e-print)/(.+)", _ASCII)
_ARXIV_DOI = re.compile(r"10\.48550/arxiv\.", _ASCII)
_SUBJECT = re.compile(r"[\w. -]+")
_DOI = re.compile(r"10\.[0-9]+(?:\.[0-9]+)*/\S+")
_DOI_PREFIX = re.compile(r"doi:\s*", _ASCII)
_DOI_HOSTS = frozenset({"doi.org", "www.doi.org", "dx.doi.org"})
_BARE_HOST = re.compile(r"(?:(?:www\.|export\.)?arxiv|(?:www\.|dx\.)?doi)\.org/", _ASCII)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", _ASCII)
_PASSWORD = re.compile(r"(?<=//)[^/]*@")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_HOST = re.compile(r"[a-z0-9_:][a-z0-9._:-]*")
_ESCAPE = re.compile(r"%([0-9a-f]{2})", _ASCII)
_KEPT_IN_QUERY = bytes(set(range(128)) - set(b' "<>'))
_KEPT_IN_PATH = bytes(set(_KEPT_IN_QUERY) - set(b"`{}"))
"""What httpx does not escape."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Identifier:
    """One document: its kind, its unique key, and the value to ask sources for.

    `version`: the arXiv version, or None for the latest; always None for other kinds.
    """

    kind: Kind
    key: str
    value: str
    version: int | None = None

    @property
    def text(self) -> str:
        """The value with its version, which identifies the same document again."""
        return self.value if self.version is None else f"{self.value}v{self.version}"


def identify(text: str) -> Identifier:
    """Read an arXiv id, DOI, URL or path in any of its usual spellings.

    Its `text` is identified as the same again: so it is read twice, and its length counts as stored.
    `2101.00001.pdf` is the paper; write `./2101.00001.pdf` for a file of that name.
    Raises BadInput, quoting the text and saying what would be right.
    """
    given = _cleaned(text)
    found = _identified(given)
    for _ in range(MAX_ROUNDS):
        if found.text == given:  # as it was read
            return found
        again = _identified(_cleaned(found.text))
        if again == found:
            return found
        if found.kind == "file":  # it would be another file
            break
        found = again
    raise _bad(found.text, "read again it would be something else; write it plainly")


def _identified(given: str) -> Identifier:
    for read in (_arxiv, _doi, _file, _url):
        if found := read(given):
            return found
    raise _bad(given, "give an arXiv id, a DOI, an http(s) URL, or a path such as ./paper.pdf")


def host_key(url: str) -> str:
    """The limit key of a URL's host, `host:name:port`, with the default port filled in.

    Raises BadInput when the URL is not http(s) or names no usable host.
    """
    parsed = _parsed(url)
    host = parsed.raw_host.decode("ascii").rstrip(".")
    name = f"[{ipaddress.ip_address(host)}]" if ":" in host else host
    return f"host:{name}:{parsed.port or _DEFAULT_PORTS[parsed.scheme]}"


def _bad(given: str, remedy: str) -> BadInput:
    shown = _PASSWORD.sub("", given)
    quoted = repr(shown if len(shown) <= 200 else shown[:200] + "…")
    return BadInput(f"{quoted} cannot be used: {remedy}")


def _required(found: Identifier | None, given: str, remedy: str) -> Identifier:
    if found is None:
        raise _bad(given, remedy)
    return found


def _cleaned(text: str) -> str:
    # Lists saved on Windows begin with a byte order mark; copied text may have zero-width spaces.
    given = text.strip(_BLANKS)
    if not given:
        raise _bad(given, "it is empty; give an arXiv id, a DOI, a URL or a path")
    if len(given) > MAX_LENGTH:
        raise _bad(given, f"it is longer than {MAX_LENGTH} characters")
    _refuse_controls(given, given)
    return given


def _refuse_controls(part: str, given: str) -> None:
    if _CONTROLS.search(part):
        raise _bad(given, "it contains control characters; remove them")


# arXiv


def _arxiv(given: str) -> Identifier | None:
    prefix = _ARXIV_PREFIX.match(given)
    rest = given[prefix.end() :] if prefix else given
    found = _arxiv_id(_without_subject(rest), given)
    if prefix is None:
        return found
    return _required(found, given, "after 'arXiv:' comes 2101.00001v2 or hep-th/9901001")


def _without_subject(text: str) -> str:
    """Without the subject that arXiv prints after an id: `2101.00001 [cs.LG]`."""
    start = text.rfind("[")
    if start < 0 or not text.endswith("]") or not _SUBJECT.fullmatch(text, start + 1, len(text) - 1):
        return text
    return text[:start].rstrip()


def _arxiv_id(text: str, given: str) -> Identifier | None:
    bare = re.sub(r"(\.pdf)?/?$", "", text.partition("#")[0], count=1, flags=_ASCII)
    if new := _NEW_ID.fullmatch(bare):
        return _new_arxiv(new, given)
    old = _OLD_ID.fullmatch(bare)
    return _old_arxiv(old, given) if old else None


def _new_arxiv(match: re.Match[str], given: str) -> Identifier:
    month, number = match[1], match[2]
    _check_month(month, given)
    if month < "0704":
        raise _bad(given, "ids of this form begin with 0704 (April 2007)")
    digits = 4 if month <= "1412" else 5
    if len(number) != digits or int(number) == 0:
        raise _bad(given, f"an id from {month} ends in a number of {digits} digits, from 1")
    return _paper(f"{month}.{number}", match[3], given)


def _old_arxiv(match: re.Match[str], given: str) -> Identifier:
    archive, month, number = match[1].lower(), match[2], match[3]
    _check_month(month, given)
    # The years wrap at 2000, so there are two ranges.
    if not ("9107" <= month <= "9912" or "0001" <= month <= "0703") or int(number) == 0:
        raise _bad(given, f"ids such as {archive}/9901001 run from 9107 to 0703, numbered from 001")
    return _paper(f"{archive}/{month}{number}", match[4], given)


def _check_month(month: str, given: str) -> None:
    if not "01" <= month[2:] <= "12":
        raise _bad(given, f"an arXiv id begins with year and month, and there is no month {month[2:]}")


def _paper(value: str, version: str | None, given: str) -> Identifier:
    if version is None:
        return Identifier("arxiv", f"arxiv:{value}", value)
    if version.startswith("0") or len(version) > 4:
        raise _bad(given, "arXiv versions are v1, v2, and so on")
    return Identifier("arxiv", f"arxiv:{value}v{version}", value, int(version))


# DOI


def _doi(given: str) -> Identifier | None:
    prefix = _DOI_PREFIX.match(given)
    found = _doi_name(given[prefix.end() :] if prefix else given, given)
    if prefix is None:
        return found
    return _required(found, given, "after 'doi:' comes a DOI such as 10.1000/182")


def _doi_name(text: str, given: str) -> Identifier | None:
    if not text.startswith("10."):
        return None
    name = _without_closing(text)
    if not _DOI.fullmatch(name):
        return None
    if prefix := _ARXIV_DOI.match(name):
        found = _arxiv_id(name[prefix.end() :], given)
        return _required(found, given, "an arXiv DOI is written 10.48550/arXiv.2101.00001")
    _refuse_controls(name, given)
    value = "".join(letter.lower() if letter.isascii() else letter for letter in name)
    return Identifier("doi", f"doi:{value}", value)


def _without_closing(name: str) -> str:
    """Drop the punctuation of a sentence after a DOI, and unmatched closing brackets."""
    return without_closing(name, ".,;", {")": "(", "]": "[", ">": "<"})


# Files


def _file(given: str) -> Identifier | None:
    if given[:5].lower() == "file:":
        return _at(_path_of_file_url(given), given)
    if _SCHEME.match(given) or _BARE_HOST.match(given) or given.lower().startswith(("http:", "https:")):
        return None
    named = given.startswith(("/", "./", "../", "~")) or given.lower().endswith(".pdf")
    return _at(given, given) if named else None


def _path_of_file_url(given: str) -> str:
    try:
        parts = urlsplit(given)
    except ValueError as error:
        raise _bad(given, "write file:///absolute/path.pdf") from error
    path = unquote(parts.path)
    if parts.netloc.lower() not in ("", "localhost") or not path.startswith("/"):
        raise _bad(given, "a file URL names a file of this machine: file:///absolute/path.pdf")
    return path


def _at(path: str, given: str) -> Identifier:
    _refuse_controls(path, given)
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise _bad(given, "no such home directory; write the path in full")
    absolute = os.path.abspath(expanded)
    return Identifier("file", f"file:{absolute}", absolute)


# URLs


def _url(given: str) -> Identifier | None:
    text = f"https://{given}" if _BARE_HOST.match(given) else given
    if not _SCHEME.match(text):
        return None
    if _length_escaped(text) > MAX_LENGTH:
        raise _bad(given, f"it is longer than {MAX_LENGTH} characters once it is escaped")
    url = _parsed(text)
    if url.host in _DOI_HOSTS:
        return _doi_of(url, given)
    if _is_arxiv(url.host) and (path := _ARXIV_PATH.fullmatch(url.path)):
        found = _arxiv_id(path[1], given)
        return _required(found, given, "papers are at https://arxiv.org/abs/2101.00001")
    return Identifier("url", f"url:{url}", str(url))


def _is_arxiv(host: str) -> bool:
    return host == "arxiv.org" or host.endswith(".arxiv.org")


def _doi_of(url: URL, given: str) -> Identifier:
    found = _doi_name(url.path.lstrip("/"), given)
    return _required(found, given, "a DOI's URL is https://doi.org/10.1000/182")


def _parsed(text: str) -> URL:
    """The normalised URL: case, default port, dot segments, escapes; without fragment.

    httpx is imported with the first: commands import this module, and few of them read a URL."""
    from httpx import URL, InvalidURL

    scheme = _SCHEME.match(text)
    if scheme is None or scheme[1].lower() not in _DEFAULT_PORTS:
        raise _bad(text, "only http and https URLs are fetched")
    plain = text.partition("#")[0]
    authority, slash, _ = plain[scheme.end() :].partition("?")[0].partition("/")
    if len(authority) > LONGEST_AUTHORITY:
        raise _bad(text, "it has no usable host and port; write https://example.org/paper.pdf")
    try:
        url = URL(_ESCAPE.sub(_normalised_escape, plain))
        if not slash:  # it has no path: that is "/"
            url = url.copy_with(raw_path=url.raw_path)
        host = url.raw_host.decode("ascii")
    except (InvalidURL, ValueError) as error:
        raise _bad(text, f"it is not a valid URL ({error})") from error
    if url.userinfo:
        raise _bad(text, "a URL may not carry a user name or a password")
    if not _HOST.fullmatch(host) or not 0 < (url.port or 80) < 65536:
        raise _bad(text, "it has no usable host and port; write https://example.org/paper.pdf")
    return url


def _length_escaped(url: str) -> int:
    """Of its path and query as httpx writes them, at least: cheaper than to have it do so."""
    path, _, query = url.partition("#")[0].partition("://")[2].partition("/")[2].partition("?")
    return _length(path, _KEPT_IN_PATH) + _length(query, _KEPT_IN_QUERY)


def _length(part: str, kept: bytes) -> int:
    written = part.encode("utf-8", "replace")
    return len(written) + 2 * len(written.translate(None, kept))


def _normalised_escape(escape: re.Match[str]) -> str:
    """RFC 3986, 6.2.2: unreserved characters are not escaped, and escapes are upper case."""
    letter = chr(int(escape[1], 16))
    plain = letter.isascii() and (letter.isalnum() or letter in "-._~")
    return letter if plain else escape[0].upper()
