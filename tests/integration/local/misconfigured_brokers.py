"""How to make each misconfiguration of a broker."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from urllib.parse import urlsplit

from redis import Redis

from queuemgr.local.private_servers import RedisServer, wait_for_port
from tests.integration.local.misconfiguration import Make, Scene, variables
from tests.private_servers import POSTGRES, REDIS


def full_broker_drops(scene: Scene) -> None:
    broker = Redis.from_url(REDIS.url)
    broker.config_set("maxmemory-policy", "allkeys-lru")
    scene.undo += [lambda: broker.config_set("maxmemory-policy", "noeviction"), broker.close]


def own_broker(make: Callable[[Redis], object], user: str = "") -> Make:
    """A Redis of its own with a password, made so; `user` replaces what its URL says of the user."""

    def made_so(scene: Scene) -> None:
        server = RedisServer(scene.directory / "broker")
        process = subprocess.Popen(server.command, stdout=subprocess.DEVNULL)
        scene.undo.append(lambda: (process.kill(), process.wait()))
        wait_for_port(server.port)
        with Redis.from_url(server.url) as client:
            make(client)
        parts = urlsplit(server.url)
        who = user if user else f"{parts.username or ''}:{parts.password}@"
        scene.environment["BROKER_URL"] = f"redis://{who.replace('-', '')}127.0.0.1:{server.port}/0"

    return made_so


def broker_url(change: Callable[[str], str]) -> Make:
    def make(scene: Scene) -> None:
        own_broker(lambda client: None)(scene)
        scene.environment["BROKER_URL"] = change(scene.environment["BROKER_URL"])

    return make


def may_not_write(client: Redis) -> None:
    client.execute_command("ACL", "SETUSER", "limited", "on", ">secret", "+@all", "-@write", "~*", "&*")


BROKERS: dict[str, Make] = {
    "no broker named": lambda scene: scene.patch.delenv("BROKER_URL"),
    "a broker that does not answer": variables(BROKER_URL="redis://:secret@127.0.0.1:1/0"),
    "a broker of a kind that does not exist": variables(BROKER_URL="carrier-pigeon://:secret@x"),
    "a broker whose password is wrong": own_broker(lambda client: None, user=":secret@"),
    "a broker that wants a password": own_broker(lambda client: None, user="-"),
    "a database number the broker has not": broker_url(lambda url: f"{url[:-1]}99"),
    "TLS asked of a broker without it": broker_url(lambda url: url.replace("redis:", "rediss:")),
    "a port of PostgreSQL as the broker's": lambda scene: scene.environment.update(
        BROKER_URL=f"redis://127.0.0.1:{POSTGRES.port}/0"
    ),
    "a host of the broker that does not exist": variables(BROKER_URL="redis://no-such-host.invalid:6379/0"),
    "a broker that is a read-only replica": own_broker(lambda client: client.slaveof("127.0.0.1", 1)),
    "a broker that is full": own_broker(lambda client: client.config_set("maxmemory", 1)),
    "a user of the broker who may not write": own_broker(may_not_write, user="limited:secret@"),
    "a broker within one process": variables(BROKER_URL="memory://"),
    "a broker that drops messages when it is full": full_broker_drops,
}
