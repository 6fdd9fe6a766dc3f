"""Who may read `/metrics`: whoever has the token; without one, this machine and nobody else."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import OperationalError
from django.test import Client

from queuemgr.base.config import ObservabilitySettings
from queuemgr.base.errors import ConfigurationError
from queuemgr.base.redaction import clean
from queuemgr.web.metrics import collector

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("static_root")]
TOKEN = "0123456789abcdef-token"
SettingsGroup = Callable[..., None]


@pytest.fixture
def relay(live_server: Any) -> Iterator[int]:
    """The port of a proxy before the web service that passes bytes on and adds nothing."""

    class Passing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            address = urlsplit(live_server.url)
            with socket.create_connection((str(address.hostname), int(address.port or 0))) as behind:
                behind.sendall(self.request.recv(65_536))
                while answer := behind.recv(65_536):
                    self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Passing) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


@pytest.mark.parametrize(
    "header", ["", "X-Forwarded-For: 127.0.0.1", "X-Real-IP: ::1", "Host: 127.0.0.1", "Via: x"]
)
def test_a_proxy_that_adds_no_header_opens_nothing(configure: SettingsGroup, relay: int, header: str) -> None:
    configure(metrics_without_token="off")
    with socket.create_connection(("127.0.0.1", relay)) as client:
        lines = ["GET /metrics HTTP/1.1", *([] if header.startswith("Host") else ["Host: localhost"]), header]
        client.sendall("\r\n".join([*filter(None, lines), "Connection: close", "", ""]).encode())
        answer = client.makefile("rb").read()
    assert answer.split()[1] == b"403" and b"sluicegate_" not in answer


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "10.0.0.7", ""])
def test_without_a_token_nobody_is_answered_unless_the_settings_say_so(
    client: Client, configure: SettingsGroup, address: str
) -> None:
    configure(metrics_without_token="off")
    answer = client.get("/metrics", REMOTE_ADDR=address)
    assert (answer.status_code, b"SLUICE_METRICS_TOKEN" in answer.content) == (403, True)


def test_metrics_are_readable_from_this_machine_where_the_settings_say_so(client: Client) -> None:
    for address in ("127.0.0.1", "127.8.8.8", "::1"):
        assert client.get("/metrics", REMOTE_ADDR=address).status_code == 200


@pytest.mark.parametrize("address", ["10.0.0.7", "192.0.2.1", "2001:db8::1", "", "nonsense"])
def test_other_machines_are_refused_and_asked_to_set_a_token(client: Client, address: str) -> None:
    answer = client.get("/metrics", REMOTE_ADDR=address)
    assert (answer.status_code, b"SLUICE_METRICS_TOKEN" in answer.content) == (403, True)


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_a_request_through_a_proxy_does_not_count_as_this_machine(client: Client, header: str) -> None:
    assert client.get("/metrics", headers={header: "127.0.0.1"}).status_code == 403


@pytest.mark.parametrize("given", [None, "", TOKEN, f"Bearer {TOKEN}x", "Bearer ", "Basic x", "Bearer é"])
def test_with_a_token_set_metrics_need_it(
    client: Client, configure: SettingsGroup, given: str | None
) -> None:
    configure(metrics_token=TOKEN)
    headers = {} if given is None else {"Authorization": given}
    answer = client.get("/metrics", headers=headers)
    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, 'Bearer realm="metrics"')
    assert TOKEN.encode() not in answer.content


def test_with_the_token_metrics_are_readable_from_anywhere(client: Client, configure: SettingsGroup) -> None:
    configure(metrics_token=TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = client.get("/metrics", headers=headers, REMOTE_ADDR="10.0.0.7")
    assert answer.status_code == 200
    assert clean(f"with {TOKEN}") == "with ***"


def test_metrics_can_be_turned_off(client: Client, configure: SettingsGroup) -> None:
    configure(metrics="false")
    assert client.get("/metrics").status_code == 404


def test_metrics_accept_only_reads_and_change_nothing(client: Client) -> None:
    assert client.head("/metrics").status_code == 200
    assert client.post("/metrics").status_code == 405


def test_an_unavailable_database_is_reported(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError("connection refused to db:5432")

    monkeypatch.setattr(collector, "database_now", away)
    answer = client.get("/metrics")
    assert (answer.status_code, answer.content) == (503, b"the database does not answer\n")


def test_a_short_token_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_METRICS_TOKEN: a token needs") as refused:
        ObservabilitySettings.load({"SLUICE_METRICS_TOKEN": "short-one"})
    assert "short-one" not in str(refused.value)
