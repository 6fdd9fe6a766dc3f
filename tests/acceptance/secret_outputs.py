"""All that a fleet lets be seen: pages, answers, logs, rows, files, process lists, what workers tell. Each
output has the name of where it comes from."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener

import psutil

from tests.acceptance.fleet import Fleet
from tests.acceptance.processes import using

Output = tuple[str, str]
SECRET_FILES = {
    "secret-key", "private-broker", "admin-password", "flower-password", "valkey.conf", "supervisord.conf",
}  # fmt: skip
LINK = re.compile(r'href="([^"#]+)"')
NUMBER = re.compile(r"\d+")


class Site:
    """A web server, seen by somebody with a login or a token."""

    def __init__(self, address: str, **headers: str) -> None:
        self.address, self._headers = address.rstrip("/"), headers
        self._opener = build_opener(HTTPCookieProcessor(CookieJar()))

    def get(self, path: str, **headers: str) -> str:
        """Status, headers and body of the answer."""
        return self._answer(Request(urljoin(self.address + "/", path), headers={**self._headers, **headers}))

    def log_in(self, name: str, password: str) -> None:
        form = self.get("/admin/login/")
        found = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
        assert found, form
        fields = {"username": name, "password": password, "csrfmiddlewaretoken": found[1]}
        answer = self._answer(Request(f"{self.address}/admin/login/", data=urlencode(fields).encode()))
        assert "Log out" in answer or "logout" in answer, answer[:500]

    def _answer(self, request: Request) -> str:
        try:
            with self._opener.open(request, timeout=60) as answer:
                return f"{answer.status} {answer.headers}\n{answer.read().decode(errors='replace')}"
        except HTTPError as error:
            with error:
                return f"{error.code} {error.headers}\n{error.read().decode(errors='replace')}"

    def crawl(self, start: str, most: int) -> Iterator[Output]:
        """The pages that can be reached by links, a few of each kind."""
        waiting, seen, kinds = [start], {start}, dict[str, int]()
        while waiting and most:
            path, most = waiting.pop(0), most - 1
            page = self.get(path)
            yield f"page {path}", page
            for link in LINK.findall(page):
                target = urljoin(path, link.replace("&amp;", "&"))
                kind = NUMBER.sub("0", urlsplit(target).path) + ("?" if "?" in target else "")
                wanted = target.startswith(("/admin/", "/papers/", "/documents/")) and "logout" not in target
                if wanted and target not in seen and kinds.get(kind, 0) < 4:
                    kinds[kind] = kinds.get(kind, 0) + 1
                    seen.add(target)
                    waiting.append(target)


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


def of_remote_control(fleet: Fleet) -> Iterator[Output]:
    """Whatever any worker answers to any question Celery knows."""
    control = fleet.celery().control
    for question in ("conf", "stats", "report", "active"):
        yield f"inspect {question}", str(getattr(control.inspect(timeout=1), question)())
    yield "inspect conf with defaults", str(control.inspect(timeout=1).conf(with_defaults=True))


def of_api(site: Site, executions: int) -> Iterator[Output]:
    """Every operation that reads."""
    schema = site.get("/api/v1/openapi.json")
    paths = json.loads(schema[schema.index("\n{") :])["paths"]
    for path in [path for path, operations in paths.items() if "get" in operations]:
        numbers = range(1, executions + 1) if "{pk}" in path or "{execution" in path else [0]
        for number in numbers:
            filled = re.sub(r"\{\w+\}", str(number), path)
            yield f"API {filled}", site.get(filled)


def of_rows(fleet: Fleet) -> Iterator[Output]:
    """Every column of every table."""
    for table in _tables(fleet):
        yield f"table {table}", "\n".join(map(str, fleet.database.rows(f'SELECT * FROM "{table}"')))


def _tables(fleet: Fleet) -> list[str]:
    if fleet.database.environment:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    else:
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    return [name for (name,) in fleet.database.rows(query)]


def of_files(directory: Path) -> Iterator[Output]:
    """Every file of the data directory, logs among them, but for those that are the secrets themselves."""
    for path in directory.rglob("*"):
        if path.is_file() and path.name not in SECRET_FILES:
            yield f"file {path.relative_to(directory)}", path.read_bytes().decode(errors="replace")


def of_processes(directory: Path, sessions: set[int]) -> Iterator[Output]:
    """Command lines, and what the system shows of environments."""
    for process in using(directory, sessions):
        with suppress(psutil.Error):
            yield f"command line of {process.pid}", " ".join(process.cmdline())


def missing(outputs: dict[str, str], *names: str) -> list[Any]:
    """Kinds of outputs of which there is none, or only empty ones."""
    return [name for name in names if not any(key.startswith(name) and text for key, text in outputs.items())]
