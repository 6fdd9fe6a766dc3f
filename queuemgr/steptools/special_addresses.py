"""Blocks of addresses where no paper is: a table of our own, since Python's opinion changes with its version.

After IANA's registries of special-purpose addresses for IPv4 and IPv6 (iana.org/assignments, RFC 6890 and its
updates) as of 2025-10, those of multicast, and the addresses at which clouds answer a machine about itself.
Blocks that IANA calls globally reachable but that belong to no single machine (anycast) are among them.
"""

from __future__ import annotations

from bisect import bisect_right
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

IPV4_BLOCKS: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private use"),
    ("100.64.0.0/10", "shared by providers; Alibaba's metadata (100.100.100.200)"),
    ("127.0.0.0/8", "loopback"),
    ("161.26.0.0/16", "services that IBM's cloud shows its machines"),
    ("166.8.0.0/14", "services that IBM's cloud shows its machines"),
    ("168.63.129.16/32", "Azure's host"),
    ("169.254.0.0/16", "link-local; metadata of most clouds (169.254.169.254)"),
    ("172.16.0.0/12", "private use"),
    ("192.0.0.0/24", "protocol assignments; Oracle's metadata (192.0.0.192)"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "AS112"),
    ("192.52.193.0/24", "AMT"),
    ("192.80.8.124/32", "Equinix Metal's metadata"),
    ("192.88.99.0/24", "6to4 relays"),
    ("192.168.0.0/16", "private use"),
    ("192.175.48.0/24", "AS112"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved; broadcast"),
)

IPV6_BLOCKS: tuple[tuple[str, str], ...] = (
    (
        "::/3",
        "no global unicast: loopback, IPv4-compatible, local NAT64 (64:ff9b:1::/48), discard (100::/64)",
    ),
    ("2001::/23", "protocol assignments: Teredo, benchmarking, AMT, AS112, ORCHID, drones, anycast"),
    ("2001:db8::/32", "documentation"),
    ("2620:4f:8000::/48", "AS112"),
    ("3fff::/20", "documentation"),
    ("4000::/2", "no global unicast: segment routing (5f00::/16)"),
    ("8000::/1", "no global unicast: unique local with AWS' and Google's metadata, link-local, multicast"),
)

NAT64 = IPv6Network("64:ff9b::/96")
MAPPED = IPv6Network("::ffff:0:0/96")
SIX_TO_FOUR = IPv6Network("2002::/16")


class _Blocks:
    """Blocks in order, none of which overlap."""

    def __init__(self, networks: list[IPv4Network] | list[IPv6Network]) -> None:
        ends = sorted((int(each.network_address), int(each.broadcast_address)) for each in networks)
        self._firsts, self._lasts = [first for first, _ in ends], [last for _, last in ends]

    def __contains__(self, address: int) -> bool:
        at = bisect_right(self._firsts, address) - 1
        return at >= 0 and address <= self._lasts[at]


_IPV4 = _Blocks([IPv4Network(block) for block, _ in IPV4_BLOCKS])
_IPV6 = _Blocks([IPv6Network(block) for block, _ in IPV6_BLOCKS])


def is_special(ip: IPv4Address | IPv6Address) -> bool:
    """Whether an address, or the IPv4 address that is in it, is in one of these blocks."""
    inner = inside(ip)
    return int(inner) in (_IPV4 if isinstance(inner, IPv4Address) else _IPV6)


def inside(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 one leads to: mapped, by NAT64 or by 6to4; else the address itself."""
    if isinstance(ip, IPv4Address):
        return ip
    number = int(ip)
    if _is_in(number, MAPPED) or _is_in(number, NAT64):
        return IPv4Address(number & 0xFFFFFFFF)
    if _is_in(number, SIX_TO_FOUR):
        return IPv4Address(number >> 80 & 0xFFFFFFFF)
    return ip


def _is_in(number: int, block: IPv6Network) -> bool:
    return int(block.network_address) <= number <= int(block.broadcast_address)
