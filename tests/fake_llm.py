"""Plays a model behind an OpenAI-compatible endpoint: gives scripted answers, and keeps the requests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, Any]]

GOOD = {
    "title": "Sluices in Practice",
    "summary": "A sluice that counts saves water.",
    "keywords": ["irrigation"],
    "contributions": ["A counting sluice."],
}


class FakeLlm(ThreadingHTTPServer):
    """Gives the answers queued with `say` and `refuse` in order; after that what `reply` makes of a request.

    Each answer takes `seconds`; `most_at_once` is how many were being answered at one time.
    """

    daemon_threads = True

    def __init__(self) -> None:
        self.answers: list[Reply] = []
        self.requests: list[dict[str, Any]] = []
        self.reply: Callable[[dict[str, Any]], Reply] = lambda request: good()
        self.seconds = 0.0
        self.headers: dict[str, str] = {}
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Chat)
        self._thread = threading.Thread(target=self.serve_forever, args=[0.02])
        self._thread.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def say(self, content: object, finish_reason: str = "stop") -> None:
        self.answers.append(completion(content, finish_reason))

    def refuse(self, status: int, message: str, **fields: object) -> None:
        self.answers.append((status, {"error": {"message": message, **fields}}))

    def sent(self, number: int) -> str:
        """The text of request `number`, counted from 1."""
        return text_of(self.requests[number - 1])

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


def completion(content: object, finish_reason: str = "stop") -> Reply:
    """An answer with this content: text as it is, anything else as JSON."""
    text = content if isinstance(content, str) else json.dumps(content)
    choice = {"finish_reason": finish_reason, "message": {"content": text}}
    return 200, {"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}


def good() -> Reply:
    return completion(GOOD)


def text_of(request: dict[str, Any]) -> str:
    return "\n".join(message["content"] for message in request["messages"])


def is_merge(request: dict[str, Any]) -> bool:
    """Is it the request that makes one analysis of the notes on all parts?"""
    return "NOTES\n" in request["messages"][-1]["content"]


class _Chat(BaseHTTPRequestHandler):
    server: FakeLlm

    def do_POST(self) -> None:
        model = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with model.lock:
            model.requests.append(request)
            model.at_once += 1
            model.most_at_once = max(model.most_at_once, model.at_once)
            given = model.answers.pop(0) if model.answers else None
        time.sleep(model.seconds)
        status, answer = given or model.reply(request)
        with model.lock:
            model.at_once -= 1
        self._give(status, json.dumps(answer).encode())

    def _give(self, status: int, body: bytes) -> None:
        try:
            self.send_response_only(status)
            for name, value in {"Content-Length": str(len(body)), **self.server.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass  # the client hung up, as it may

    def log_message(self, format: str, *args: object) -> None:
        pass
