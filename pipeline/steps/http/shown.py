"""URLs as messages may quote them."""

from __future__ import annotations

import re

_USER = re.compile(r"//[^/]*@")


def shown(url: str) -> str:
    """The URL as messages may quote it, without the query, which may hold a signature or an e-mail
    address. Text that is no URL is cut where a query would begin.

    Models import this, and so does every command; httpx, which takes longer to import than our own code, is
    imported with the first URL.
    """
    from httpx import URL, InvalidURL

    try:
        return str(URL(url).copy_with(userinfo=b"", query=None, fragment=None))
    except InvalidURL:
        return _USER.sub("//", re.split(r"[?#]", url, maxsplit=1)[0])
