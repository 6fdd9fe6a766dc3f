"""An environment in which every secret is marked, and what quotes a secret. Secrets are found among the
groups of settings, so that a new one is marked too."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from project.program_secrets import PROGRAM_SECRETS
from queuemgr.base.program_secrets import all_groups
from queuemgr.base.settings_group import SettingsGroup

OURS = ("queuemgr", "pipeline", "project")
SERVERS = {"DATABASE_URL", "BROKER_URL"}
"""Their URLs lead to servers of the test, whose passwords are marks too."""


def groups() -> list[type[SettingsGroup]]:
    """Every group of settings, but for those that other tests make."""
    found = {group for group in all_groups() if group.__module__.partition(".")[0] in OURS}
    return sorted(found, key=lambda group: f"{group.__module__}.{group.__qualname__}")


OF_OTHERS = ("PAYMENTS_API_KEY", "LEDGER_DATABASE_URL")
"""Variables of some application, which no group of settings names."""


WEBHOOK = "told"
"""A webhook, and the name of its secret."""


@dataclass
class Marks:
    """Marked values by what they are the secret of."""

    by_name: dict[str, str] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def new(self, name: str) -> str:
        mark = f"marked+{next(self._numbers):03}/{name.lower()}=="
        self.by_name[name] = _signing(mark) if name.endswith("WEBHOOK_SECRETS") else mark
        return self.by_name[name]

    def found_in(self, text: str) -> list[str]:
        """Whose secrets are in a text, as they are or as somebody encodes them."""
        return [name for name, mark in self.by_name.items() if any(form in text for form in _forms(mark))]


def _signing(mark: str) -> str:
    """A mark that a request can be signed with."""
    return f"whsec_{b64encode(mark.encode().ljust(32, b'+')).decode()}"


def _forms(mark: str) -> set[str]:
    plain = mark.replace("/", "\\/")
    encoded = [b64encode(text.encode()).decode() for text in (mark, f"somebody:{mark}", f"flower:{mark}")]
    return {mark, plain, quote(mark, safe=""), quote(mark), *encoded}


def environment(marks: Marks, echo: EchoServer, given: Mapping[str, str]) -> dict[str, str]:
    """Variables for every secret, of settings, libraries and applications, and for every other setting that
    may be a URL, which leads to the server that quotes what it is sent; `given` are those of the fleet."""
    of_groups = {variable for group in groups() for variable in group.secrets().values()}
    secret = of_groups.union(OF_OTHERS, *PROGRAM_SECRETS.values()) - SERVERS
    marked = {variable: _secret(variable, marks.new(variable)) for variable in sorted(secret)}
    for group in groups():
        for name, info in group.model_fields.items():
            variable = group.variable(name)
            if info.annotation is str and name.endswith(("_url", "_endpoint")):
                marked[variable] = _url(group, name, marks, echo)
    for variable in SERVERS & given.keys():
        if password := urlsplit(given[variable]).password:
            marks.by_name[variable] = password
    return {**given, **marked}


def _secret(variable: str, mark: str) -> str:
    if variable.endswith("_WEBHOOK_SECRETS"):
        return f"{WEBHOOK}={mark}"
    if variable.endswith("_HEADERS"):
        return f"api-key={quote(mark, safe='')},x-other=1"
    if variable.endswith("_OPTIONS"):
        return json.dumps({"bucket_name": "papers", "secret_key": mark})
    if variable == "EMAIL_URL":
        return f"smtp://somebody:{quote(mark, safe='')}@127.0.0.1:9"
    if variable.endswith("_DESTINATIONS"):
        return f"{WEBHOOK}=https://127.0.0.1:9/{quote(mark, safe='')}"
    if variable.endswith("_URL"):
        return f"postgres://somebody:{quote(mark, safe='')}@ledger.example/ledger"
    return f"flower:{mark}" if variable == "FLOWER_BASIC_AUTH" else mark


def _url(group: type[SettingsGroup], name: str, marks: Marks, echo: EchoServer) -> str:
    """With a password, unless the setting takes none."""
    marked = Marks()
    password = quote(marked.new(group.variable(name)), safe="")
    url = f"http://somebody:{password}@127.0.0.1:{echo.server_port}/v1"
    try:
        group(**{name: url})
    except ValidationError:
        return echo.url
    marks.by_name |= marked.by_name
    return url


class EchoServer(ThreadingHTTPServer):
    """Refuses every request and quotes all of it, as servers do that help to find errors."""

    daemon_threads = True

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.bodies: list[bytes] = []
        super().__init__(("127.0.0.1", 0), _Echo)
        threading.Thread(target=self.serve_forever, args=[0.05], daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Echo(BaseHTTPRequestHandler):
    server: EchoServer

    def do_GET(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        quoted = f"{self.path} {dict(self.headers)}"
        self.server.requests.append(quoted)
        body = json.dumps({"error": {"message": f"not allowed: {quoted}", "code": quoted}}).encode()
        self.send_response(401, f"refused {self.headers.get('Authorization', '')}")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_GET

    def log_message(self, *args: object) -> None:
        """What it is asked is in `requests`, not in this test's output."""
