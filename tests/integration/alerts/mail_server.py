"""A mail server on a socket that takes messages, refuses them, drops connections or drips its answers."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.behaviour = "takes"
        self.taken: list[str] = []
        self.over = threading.Event()


class _Session(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        how = self.server.behaviour
        if how == "drops at once":
            return
        if how == "drips":  # within any timeout of a socket, and never done
            while not self.server.over.wait(0.02):
                self.wfile.write(b"220-")
            return
        if how == "is silent":
            self.server.over.wait(60)
            return
        self._say("220 here")
        while line := self.rfile.readline().decode("utf-8", "replace").strip():
            verb = line[:4].upper()
            if verb == "DATA" and how == "drops in the message":
                return
            if verb == "DATA":
                self._say("354 go on")
                self._take()
            self._say("550 no such user" if verb == "RCPT" and how == "refuses" else "250 ok")

    def _take(self) -> None:
        lines = iter(self.rfile.readline, b".\r\n")
        self.server.taken.append(b"".join(lines).decode())

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mail_server() -> Iterator[MailServer]:
    with MailServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()


BEHAVIOURS = ("refuses", "drops at once", "drops in the message", "drips", "is silent")
"""Those that take no message."""
