"""The table of special addresses against what others say: IANA's registries as they are published, and the
RFCs of what is in none of them. A missing block, one that is too small, and one that is too large fail."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Network, IPv6Network

import pytest

from queuemgr.steptools.special_addresses import IPV4_BLOCKS, IPV6_BLOCKS

Network = IPv4Network | IPv6Network

REGISTERED = [
    "0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
    "172.16.0.0/12", "192.0.0.0/24", "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32",
    "192.0.0.170/32", "192.0.0.171/32", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24",
    "192.88.99.0/24", "192.88.99.2/32", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",
    "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "255.255.255.255/32",
    "::1/128", "::/128", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64",
    "100:0:0:1::/64", "2001::/23", "2001::/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128",
    "2001:2::/48", "2001:3::/32", "2001:4:112::/48", "2001:10::/28", "2001:20::/28", "2001:30::/28",
    "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7",
    "fe80::/10",
]  # fmt: skip
"""The blocks of iana.org/assignments/iana-ipv4-special-registry, and of iana-ipv6-special-registry."""

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
    "192.80.8.124/32": "deploy.equinix.com/developers/docs/metal/server-metadata",
    "168.63.129.16/32": "learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16",
}
"""Public by their number, and private to the machines of a cloud."""


def unassigned() -> list[str]:
    """What of IPv6 is outside of global unicast."""
    return [str(block) for block in IPv6Network("::/0").address_exclude(GLOBAL_UNICAST)]


SPECIAL = [*REGISTERED, *IN_NO_REGISTRY, *unassigned(), *OF_CLOUDS]

TABLE = [ipaddress.ip_network(block) for block, _ in (*IPV4_BLOCKS, *IPV6_BLOCKS)]


def within(inner: Network, outer: Network) -> bool:
    return inner.version == outer.version and inner.subnet_of(outer)  # type: ignore[arg-type]


def test_the_registries_are_whole() -> None:
    assert len(list(REGISTERED)) == len(set(REGISTERED)) == ENTRIES


@pytest.mark.parametrize("block", [block for block in SPECIAL if block not in LEAD_TO_IPV4])
def test_every_special_block_is_in_the_table_as_a_whole(block: str) -> None:
    assert any(within(ipaddress.ip_network(block), ours) for ours in TABLE)


@pytest.mark.parametrize("block", TABLE, ids=str)
def test_no_block_of_the_table_is_larger_than_what_somebody_calls_special(block: Network) -> None:
    assert str(block) in SPECIAL
