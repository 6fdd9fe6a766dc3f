"""Runs a command beside a private PostgreSQL and a private Valkey, which it finds in its environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from queuemgr.local.private_servers import PostgresServer, RedisServer, free_port, wait_for_port


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="quick-starts-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        with servers(root) as environment:
            return subprocess.call(sys.argv[1:], env={**os.environ, **environment})


@contextmanager
def servers(root: Path) -> Iterator[dict[str, str]]:
    """The addresses of both servers as environment variables, while the block runs."""
    redis, postgres = RedisServer(root / "redis"), PostgresServer(root / "postgres")
    broker = subprocess.Popen(redis.command, stdout=subprocess.DEVNULL)
    try:
        wait_for_port(redis.port, broker)
        postgres.start()
        yield {"REDIS_URL": redis.url, **_parts(postgres.url), "WEB_PORT": str(free_port())}
    finally:
        postgres.stop()
        broker.kill()
        broker.wait()


def _parts(url: str) -> dict[str, str]:
    address = urlsplit(url)
    return {
        "POSTGRES_PORT": str(address.port),
        "POSTGRES_USER": str(address.username),
        "POSTGRES_NAME": address.path.removeprefix("/"),
    }


if __name__ == "__main__":
    sys.exit(main())
