"""All that a fleet lets be seen: pages, answers, logs, rows, files, process lists, what workers tell. Each
output has the name of where it comes from."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener

import psutil

from queuemgr.worker import remote_control
from tests.acceptance.databases import FILE
from tests.acceptance.fleet import Fleet
from tests.acceptance.processes import using

Output = tuple[str, str]
SECRET_FILES = {
    "secret-key", "private-broker", "admin-password", "flower-password", "valkey.conf",
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

    def send(self, method: str, path: str, body: Any = None) -> str:
        """The same of a request with a body of JSON."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": "application/json"}
        address = urljoin(self.address + "/", path)
        return self._answer(Request(address, data=data, headers=headers, method=method.upper()))

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


def of_remote_control(fleet: Fleet, workers: int) -> Iterator[Output]:
    """What every worker answers to every question of remote control that workers answer."""
    control = fleet.celery().control
    for command in remote_control.ANSWERED:
        for given in ARGUMENTS.get(command, [{}]):
            asked = {"arguments": given, "reply": True, "timeout": 5, "limit": workers}
            answers = control.broadcast(command, **asked)
            assert len(answers) == workers, command
            yield f"remote control {command} {given}", str(answers)


ARGUMENTS: Mapping[str, list[dict[str, Any]]] = {
    "conf": [{}, {"with_defaults": True}],
    "dump_conf": [{"with_defaults": True}],
    "query_task": [{"ids": ["no-such-task"]}],
    "revoke": [{"task_id": "no-such-task"}],
    "hello": [{"from_node": "somebody@elsewhere", "revoked": {}}],
}


class BrokerWatch:
    """All that goes through a broker while this is open: messages, events, remote control and its answers."""

    def __init__(self, url: str) -> None:
        server = urlsplit(url)
        self._read: list[bytes] = []
        self._socket = socket.create_connection((server.hostname, server.port))
        self._socket.sendall(f"AUTH {server.password}\r\nMONITOR\r\n".encode())
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        with suppress(OSError):  # the broker was killed
            while some := self._socket.recv(1 << 20):
                self._read.append(some)

    def close(self) -> str:
        """What went through, with the bodies of messages as they are and decoded."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._socket.close()
        text = b"".join(self._read).decode(errors="replace")
        return "\n".join([text, *map(_decoded, BASE64.findall(text))])


BASE64 = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")


def _decoded(text: str) -> str:
    return base64.b64decode(text[: len(text) - len(text) % 4]).decode(errors="replace")


def of_api(site: Site, executions: int, names: Mapping[str, str]) -> Iterator[Output]:
    """Every operation: those that read for so many executions, then those that change something."""
    operations = [
        (method, path)
        for path, methods in _schema(site)["paths"].items()
        for method in methods if method in ("get", "post", "patch", "delete")
    ]  # fmt: skip
    for method, path in sorted(operations, key=lambda one: one[0] != "get"):
        numbers = range(1, executions + 1) if "/executions/{" in path and method == "get" else [1]
        for number in numbers:
            kind = path.split("/")[3]
            filled = path.replace("{pk}", str(number)).replace("{name}", names.get(kind, "none"))
            filled = filled.replace("{flow}", "telling").replace("{key}", f"telling-{number}")
            assert "{" not in filled, path
            body = BODIES.get(path.removeprefix("/api/v1/"), {})
            yield f"API {method} {filled}", site.send(method, filled, None if method == "get" else body)


BODIES: Mapping[str, Mapping[str, Any]] = {
    "executions": {"flow": "telling", "item": "anything"},
    "executions/many": {"flow": "telling", "items": ["anything", "else"]},
    "executions/{pk}/retry": {"payload": {"number": 2}},
    "batches": {"name": "another", "flow": "telling"},
    "batches/{name}/add": {"items": ["anything"]},
}
"""What makes callbacks of the flow fail; every other operation is sent an empty object."""


def _schema(site: Site) -> dict[str, Any]:
    answer = site.get("/api/v1/openapi.json")
    return dict(json.loads(answer[answer.index("\n{") :]))


STEPS_OWN = {"queuemgr_execution": {"payload", "context", "result"}}
"""Columns of what an application's steps keep, which is stored as it is, and masked where it is shown."""


def of_rows(fleet: Fleet) -> Iterator[Output]:
    """Every column of every table, but for what steps keep."""
    for table in _tables(fleet):
        names = [name for name in _columns(fleet, table) if name not in STEPS_OWN.get(table, ())]
        columns = ", ".join(f'"{name}"' for name in names)
        yield f"table {table}", "\n".join(map(str, fleet.database.rows(f'SELECT {columns} FROM "{table}"')))


def _columns(fleet: Fleet, table: str) -> list[str]:
    if fleet.database.environment:
        query = "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
    else:
        query = "SELECT name FROM pragma_table_info(%s)"
    return [name for (name,) in fleet.database.rows(query, table)]


def _tables(fleet: Fleet) -> list[str]:
    if fleet.database.environment:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    else:
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    return [name for (name,) in fleet.database.rows(query)]


def of_files(directory: Path) -> Iterator[Output]:
    """Every file of the data directory, logs among them, but for those that are the secrets themselves and
    SQLite's, whose tables are searched."""
    for path in directory.rglob("*"):
        if path.is_file() and path.name not in SECRET_FILES and not path.name.startswith(FILE):
            yield f"file {path.relative_to(directory)}", path.read_bytes().decode(errors="replace")


def of_processes(directory: Path, sessions: set[int]) -> Iterator[Output]:
    """Command lines, and what the system shows of environments: of a forked program those of the fork
    server."""
    for process in using(directory, sessions):
        with suppress(psutil.Error):
            yield f"command line of {process.pid}", " ".join(process.cmdline())
            yield f"environment of {process.pid}", str(process.environ())


def missing(outputs: dict[str, str], *names: str) -> list[Any]:
    """Kinds of outputs of which there is none, or only empty ones."""
    return [name for name in names if not any(key.startswith(name) and text for key, text in outputs.items())]
