"""Which addresses may be fetched from (SSRF protection): checked after DNS resolution, not by name."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from concurrent.futures import Executor
from dataclasses import dataclass

import httpx

from pipeline.steps.http.shown import shown
from queuemgr import StepFailed
from queuemgr.steptools.special_addresses import is_special

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Reach:
    """Which private addresses a download may connect to.

    `allow_private` allows every address; `trusted_hosts` (each `name:port`) allows single hosts, such
    as an intranet's repository.
    """

    allow_private: bool = False
    trusted_hosts: frozenset[str] = frozenset()

    def covers(self, url: httpx.URL) -> bool:
        return self.allow_private or name_and_port(url) in self.trusted_hosts


async def allowed_addresses(url: httpx.URL, reach: Reach, threads: Executor) -> list[str]:
    """The IP addresses of the URL's host, looked up in `threads`, each of them checked.

    Raises StepFailed: "refused_address" if one may not be fetched from, "network" for an unknown name.
    """
    if url.scheme not in _DEFAULT_PORTS or not url.host or url.userinfo:
        raise StepFailed(
            "refused_address",
            f"only http and https URLs without a user name are fetched, not {shown(str(url))}",
        )
    loop = asyncio.get_running_loop()
    addresses = await loop.run_in_executor(threads, _look_up, url)
    if not reach.covers(url):
        _refuse_private(url.host, addresses)
    return addresses


def name_and_port(url: httpx.URL) -> str:
    """The host as `trusted_hosts` spells it: `name:port`, the default port filled in."""
    return f"{url.raw_host.decode('ascii')}:{_port(url)}"


def _port(url: httpx.URL) -> int:
    return url.port or _DEFAULT_PORTS.get(url.scheme, 0)


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet, and belongs to one machine."""
    return not is_special(ipaddress.ip_address(address))


def _look_up(url: httpx.URL) -> list[str]:
    try:
        found = socket.getaddrinfo(url.raw_host, _port(url), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise StepFailed("network", f"{url.host} could not be resolved: {error}") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _refuse_private(host: str, addresses: list[str]) -> None:
    # One private address among public ones is refused too: that is how DNS rebinding works.
    for address in addresses:
        if not is_public(address):
            raise StepFailed(
                "refused_address", f"address not allowed: {host} has one that is private or local"
            )
