"""The secrets inside the text of a setting: passwords of URLs, keys of options and headers."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from queuemgr.base.redaction import register_secret

SECRET_NAME = re.compile(
    r"key|secret|token|pass|pwd|credential|connection_string|sas\b|dsn|auth\b|signature$", re.I
)
"""How an option or a parameter of a URL is called whose value is a secret."""

_SECRET_VARIABLE = re.compile(r"(key|token|secret|password|passwd|credentials?)$", re.I)
"""How a variable of the environment is called that is a secret, whoever it belongs to."""

_URL = re.compile(r"[a-z][a-z0-9+.-]{0,20}://", re.I)
_BETWEEN_URLS = re.compile(r"([;,\s])(?=[a-z][a-z0-9+.-]{0,20}://)", re.I)
_ENDS_A_HOST = re.compile(r"[/?#\[\]]")
_HOST_PART = re.compile(r"[^/?#\s]*")
_AT_OR_BLANK = re.compile(r"[@\s]")
_PARAMETER = re.compile(r"(?<=[?&])([^=&?#\s]*)=")
_VALUE = re.compile(r"[^&#\s]*")


def register_secret_text(text: str) -> None:
    """Mask a secret setting: of URLs and options what is secret in them, of any other text all."""
    for secret in _secrets_in(text):
        register_secret(secret)


def register_url_credentials(text: str) -> None:
    """Mask what is secret in a setting that is no secret itself: a URL may hold a password."""
    for secret in of_urls(text):
        register_secret(secret)


def register_environment(variables: Mapping[str, str]) -> None:
    """Mask what other variables hold that are called like secrets, such as an application's own key, the
    passwords of logins (`…_AUTH`), and those of URLs, such as a proxy's. Names of files are no secrets."""
    for name, value in variables.items():
        if name.upper().endswith("AUTH"):
            for secret in _of_logins(value):
                register_secret(secret)
        if _SECRET_VARIABLE.search(name) and "/" not in value[:2] and len(value) >= 8:
            register_secret_text(value)
        register_url_credentials(value)


def _of_logins(text: str) -> Iterator[str]:
    """The passwords of `user:password,…`, and each login as a header of HTTP has it."""
    for login in text.split(",") if ":" in text else ():
        yield login.partition(":")[2]
        yield b64encode(login.encode()).decode()


def _secrets_in(text: str) -> list[str]:
    if _URL.match(text):
        return of_urls(text)
    with suppress(ValueError, RecursionError):
        if isinstance(options := json.loads(text), dict):
            return list(of_options(options))
    return [text, *of_headers(text)]


def of_urls(text: str) -> list[str]:
    """The passwords of these URLs (a user of http without one is a token), and their parameters with secret
    names; each as written and decoded, and as a header of HTTP has them."""
    found = []
    for url in _BETWEEN_URLS.split(text)[::2] if "://" in text else []:
        for begin, end in _userinfos(url):
            found += _of_userinfo(url[begin:end], is_http=_is_http(url, begin))
        found += [value for name, value in _parameters(url) if SECRET_NAME.search(name)]
    return [form for secret in found for form in (secret, unquote(secret))]


def without_url_credentials(text: str) -> str:
    """`text` with what is secret in its URLs replaced by `***`. Whoever wrote it, nothing is masked elsewhere
    for it."""
    if "://" not in text:
        return text
    urls = _BETWEEN_URLS.split(text)
    urls[::2] = [_without_parameters(_without_userinfos(url)) for url in urls[::2]]
    return "".join(urls)


def _without_userinfos(url: str) -> str:
    pieces, done = [], 0
    for begin, end in _userinfos(url):
        if ":" in url[begin:end] or _is_http(url, begin):
            pieces += [url[done:begin], "***"]
            done = end
    return "".join([*pieces, url[done:]])


def _without_parameters(url: str) -> str:
    pieces, done = [], 0
    for parameter in _PARAMETER.finditer(url):
        if parameter.start() >= done and SECRET_NAME.search(unquote(parameter[1])):
            pieces += [url[done : parameter.end()], "***"]
            done = _end_of(_VALUE, url, parameter.end())
    return "".join([*pieces, url[done:]])


def _userinfos(url: str) -> Iterator[tuple[int, int]]:
    """Where users and passwords are: from `://` to the last `@` before the path, or, for a password with
    characters that end a host, to the next one. Reads each character a few times, however they repeat."""
    begin, stop = url.find("://"), 0
    while begin != -1:
        begin += 3
        end = _end_of(_HOST_PART, url, begin)
        at = url.rfind("@", begin, end)
        if at == -1 and ":" in url[begin:end]:
            stop = stop if stop >= end else _start_of(_AT_OR_BLANK, url, end)
            at = stop if url[stop : stop + 1] == "@" else -1
        if at != -1:
            yield begin, at
        begin = url.find("://", max(begin, at))


def _start_of(pattern: re.Pattern[str], text: str, begin: int) -> int:
    found = pattern.search(text, begin)
    return found.start() if found else len(text)


def _end_of(pattern: re.Pattern[str], text: str, begin: int) -> int:
    found = pattern.match(text, begin)
    return found.end() if found else begin


def _is_http(url: str, begin: int) -> bool:
    """Whether the scheme before this userinfo is that of the web."""
    return url[max(0, begin - 8) : begin - 3].lower().endswith(("http", "https"))


def _of_userinfo(userinfo: str, *, is_http: bool) -> list[str]:
    """Its password, also in the pieces that a reader of URLs would make of one that is not escaped, since it
    quotes them as a port or a host that it does not understand."""
    user, _, password = userinfo.partition(":")
    pieces = _ENDS_A_HOST.split(password) if _ENDS_A_HOST.search(password) else []
    if not is_http:
        return [password, *pieces]
    header = b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return [password or user, header, *pieces]


def url_problem(text: str) -> str:
    """Why a setting that is a URL, or several, cannot be read as it is meant, or "". Quotes nothing of it."""
    for url in _BETWEEN_URLS.split(text)[::2] if _URL.match(text) else []:
        if any(_ENDS_A_HOST.search(url[begin:end]) for begin, end in _userinfos(url)):
            return "it cannot be read: write / ? # [ ] of its password as %2F %3F %23 %5B %5D"
        try:
            _ = urlsplit(url).port
        except ValueError:
            return "it is no valid URL: look at its host and its port"
    return ""


def _parameters(url: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(urlsplit(url).query)
    except ValueError:  # no valid address: whoever uses it says so
        return []


def of_options(value: Any, name: str = "") -> Iterator[str]:
    """The values with secret names in the options of a storage, at any depth, and passwords of URLs."""
    if isinstance(value, dict):
        for inner_name, inner in value.items():
            yield from of_options(inner, inner_name if not SECRET_NAME.search(name) else name)
    elif isinstance(value, list):
        for inner in value:
            yield from of_options(inner, name)
    elif isinstance(value, str):
        yield from of_urls(value)
        if SECRET_NAME.search(name) and "://" not in value:
            yield value


def of_headers(text: str) -> Iterator[str]:
    """The values of `name=value,…`, and what follows a scheme such as `Bearer` in them."""
    for pair in text.split(","):
        name, _, value = pair.partition("=")
        if re.fullmatch(r"\s*[\w.-]+\s*", name):
            value = unquote(value.strip())
            yield value
            yield value.rpartition(" ")[2]
