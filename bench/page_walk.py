"""Opens every page an operator can reach by links, several times: seconds and statements of each."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from html import unescape
from statistics import median
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urljoin, urlsplit

if TYPE_CHECKING:
    from django.test import Client

FIRST = ("/admin/", "/api/v1/executions", "/api/v1/stats", "/api/v1/limits", "/metrics", "/papers/")
LEFT_OUT = re.compile(r"/(logout|jsi18n|password_change|export|download|static|documents)\b|\.jsonl?$")
LINK = re.compile(r'(?:href|hx-get)="([^"#]+)')
MOST_PAGES = 400
MOST_CHOICES = 2
"""Filters, an order or a page number of a list chosen at once: all combinations would be thousands."""


def walk(repetitions: int) -> Any:
    """Open each kind of page once and then `repetitions` times; its time is the median of the later ones."""
    client = _operator()
    found: dict[str, Any] = {}
    queue = deque(FIRST)
    seen = {_kind(address) for address in FIRST}
    while queue and len(found) < MOST_PAGES:
        address = queue.popleft()
        page = _open(client, address, repetitions)
        if page is None:
            continue
        found[address] = page["measures"]
        for link in _links(address, page["text"]):
            if _kind(link) not in seen and len(_kind(link)) <= 1 + MOST_CHOICES:
                seen.add(_kind(link))
                queue.append(link)
    return found


def _operator() -> Client:
    from django.contrib.auth import get_user_model
    from django.test import Client

    client = Client(raise_request_exception=False, SERVER_NAME="localhost")
    client.force_login(get_user_model().objects.create_superuser("bench"))
    return client


def _open(client: Client, address: str, repetitions: int) -> Any:
    """The links of a page; None for a page that does not exist or redirects. Raises on a page that fails."""
    from django.db import connection

    statements: list[str] = []

    def counted(execute: Any, sql: str, *args: Any) -> Any:
        statements.append(sql)
        return execute(sql, *args)

    with connection.execute_wrapper(counted):
        first = client.get(address)
    if first.status_code >= 500:
        raise RuntimeError(f"{address} answers {first.status_code}")
    if first.status_code != 200 or first.streaming:
        return None
    times = [_seconds(client, address) for _ in range(repetitions)]
    measures = {"seconds": median(times), "worst": max(times), "statements": len(statements)}
    return {"measures": measures, "text": first.content.decode(errors="replace")}


def _seconds(client: Client, address: str) -> float:
    began = time.perf_counter()
    client.get(address).close()
    return time.perf_counter() - began


def _links(here: str, text: str) -> Iterator[str]:
    for given in LINK.findall(text):
        link = urlsplit(urljoin(here, unescape(given)))
        if not link.netloc and not LEFT_OUT.search(link.path):
            yield link.path + (f"?{link.query}" if link.query else "")


def _kind(address: str) -> tuple[Any, ...]:
    """Pages that differ only in the row they show, or in the value of a filter, are one kind."""
    link = urlsplit(address)
    names: Iterable[str] = (name for name, _ in parse_qsl(link.query, keep_blank_values=True))
    return re.sub(r"\d+", "#", link.path), *sorted(set(names) - {"_changelist_filters"})
