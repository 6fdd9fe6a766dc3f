"""arXiv's one bucket, judged by its starts and by the requests that arrive at the other end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest

from tests.acceptance.conftest import MakeFleet

FEED = '<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>http://arxiv.org/abs/{}v1</id></entry></feed>'


class Stub:
    """Answers questions about papers, has no PDFs, and logs when each request started and ended."""

    def __init__(self) -> None:
        self.log: list[tuple[float, str]] = []
        self.open_now = self.most_open = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(stub) -> type[BaseHTTPRequestHandler]:  # `self` is the handler
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.log.append((time.time(), self.path))
                stub.open_now += 1
                stub.most_open = max(stub.most_open, stub.open_now)
                arxiv_id = self.path.partition("id_list=")[2].partition("&")[0]
                body = FEED.format(arxiv_id).encode() if arxiv_id else b"none"
                self.send_response(200 if arxiv_id else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                stub.open_now -= 1
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@pytest.fixture
def arxiv() -> Iterator[Stub]:
    stub = Stub()
    yield stub
    stub.close()


def test_two_workers_share_arxivs_rate_over_its_api_and_its_pdfs(make_fleet: MakeFleet, arxiv: Stub) -> None:
    fleet = make_fleet(arxiv_url=arxiv.url, allow_private_addresses=True)
    fleet.start_worker(4, name="one", wait=False)
    fleet.start_worker(4, name="two", wait=False)
    fleet.wait_for_workers(*fleet.processes[-2:])
    fleet.queue("limit", "resolver:arxiv", "--rate", "1/1s", "--reason", "a shorter test")
    papers = [f"2101.0000{number}" for number in range(1, 5)]
    fleet.queue("enqueue", *papers)
    fleet.wait_until("all tried", lambda: fleet.states()["failed"] == 4, within=60)
    paths = [path for _, path in arxiv.log]
    assert sorted(path for path in paths if path.startswith("/pdf/")) == [f"/pdf/{p}v1" for p in papers]
    assert len(paths) == 8
    rated = "SELECT started_at FROM queuemgr_attempt WHERE limit_keys LIKE '%%resolver:arxiv%%' ORDER BY 1"
    starts = [_timestamp(start) for (start,) in fleet.database.rows(rated)]
    assert len(starts) == 8
    assert min(later - sooner for sooner, later in pairwise(starts)) > 0.999
    assert all(asked > start for (asked, _), start in zip(arxiv.log, starts, strict=True)), "none comes early"
    assert arxiv.most_open == 1


def _timestamp(stored: object) -> float:
    """SQLite stores times as text, in UTC."""
    return datetime.fromisoformat(str(stored)).replace(tzinfo=UTC).timestamp()
