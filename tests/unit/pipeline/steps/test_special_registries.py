"""The table of special addresses against what others say: IANA's registries as they are published, and the
RFCs of what is in none of them. A missing block, one that is too small, and one that is too large fail."""

from __future__ import annotations

import csv
import ipaddress
import re
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

import pytest

from pipeline.steps.http.special_addresses import IPV4_BLOCKS, IPV6_BLOCKS

Network = IPv4Network | IPv6Network

REGISTRIES = ("iana_ipv4_special_registry.csv", "iana_ipv6_special_registry.csv")
"""iana.org/assignments/iana-ipv4-special-registry/iana-ipv4-special-registry-1.csv, and of IPv6."""

ENTRIES = 51
"""Of both, a line with two blocks counted twice: so many there are since April 2025."""

IN_NO_REGISTRY = {"224.0.0.0/4": "RFC 5771", "ff00::/8": "RFC 4291, 2.7", "fec0::/10": "RFC 3879"}

GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All that has been assigned of IPv6 (RFC 4291, 2.4; iana.org/assignments/ipv6-address-space)."""

LEAD_TO_IPV4 = {"::ffff:0:0/96", "64:ff9b::/96", "2002::/16"}
"""What is inside of these is judged."""

OF_CLOUDS = {
    "161.26.0.0/16": "cloud.ibm.com/docs/vpc?topic=vpc-service-endpoints-for-vpc",
    "166.8.0.0/14": "cloud.ibm.com/docs/vpc?topic=vpc-service-endpoints-for-vpc",
    "168.63.129.16/32": "learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16",
}
"""Public by their number, and private to the machines of a cloud."""


def registered() -> Iterator[str]:
    for name in REGISTRIES:
        with Path(__file__).with_name(name).open(newline="") as lines:
            for row in csv.DictReader(lines):
                yield from re.findall(r"[\da-f.:]+/\d+", row["Address Block"])


def unassigned() -> list[str]:
    """What of IPv6 is outside of global unicast."""
    return [str(block) for block in IPv6Network("::/0").address_exclude(GLOBAL_UNICAST)]


SPECIAL = [*registered(), *IN_NO_REGISTRY, *unassigned(), *OF_CLOUDS]

TABLE = [ipaddress.ip_network(block) for block, _ in (*IPV4_BLOCKS, *IPV6_BLOCKS)]


def within(inner: Network, outer: Network) -> bool:
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def test_the_registries_are_whole() -> None:
    assert len(list(registered())) == len(set(registered())) == ENTRIES


@pytest.mark.parametrize("block", [block for block in SPECIAL if block not in LEAD_TO_IPV4])
def test_every_special_block_is_in_the_table_as_a_whole(block: str) -> None:
    assert any(within(ipaddress.ip_network(block), ours) for ours in TABLE)


@pytest.mark.parametrize("block", TABLE, ids=str)
def test_no_block_of_the_table_is_larger_than_what_somebody_calls_special(block: Network) -> None:
    assert str(block) in SPECIAL
