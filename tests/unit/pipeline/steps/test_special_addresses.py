"""Which addresses are not fetched from: the edges of every block, in every form that leads there."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest

from pipeline.steps.http.safe_addresses import is_public
from queuemgr.steptools.special_addresses import IPV4_BLOCKS, IPV6_BLOCKS

METADATA = (
    "169.254.169.254", "169.254.170.2", "168.63.129.16", "192.0.0.192", "100.100.100.200", "fd00:ec2::254",
    "fd20:ce::254", "fd00:c1::a9fe:a9fe", "161.26.0.11", "166.9.0.1",
)  # fmt: skip

SPECIAL = (
    "0.0.0.0", "0.0.0.1", "127.0.0.1", "10.1.2.3", "172.31.255.255", "192.168.0.1", "192.0.0.8",
    "192.0.0.9", "192.0.0.170", "192.88.99.1", "192.88.99.2", "198.19.255.255", "224.0.0.1", "239.1.1.1",
    "240.0.0.1", "255.255.255.255", "233.252.0.1", "::", "::1", "::7f00:1", "::ffff:0:7f00:1",
    "64:ff9b:1::a00:1", "100::1", "100:0:0:1::1", "2001::1", "2001:1::1", "2001:1::2", "2001:1::3",
    "2001:2::1", "2001:3::1", "2001:4:112::1", "2001:10::1", "2001:20::1", "2001:30::1", "2001:db8::1",
    "2620:4f:8000::1", "3fff::1", "5f00::1", "fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0", "fec0::1",
    "ff02::1", "4000::1", "1fff::1", "c000::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
)  # fmt: skip
"""One of each entry of IANA's registries, and of addresses outside of what is assigned as global unicast."""

PUBLIC = (
    "1.1.1.1", "8.8.8.8", "128.84.21.199", "151.101.1.42", "2606:4700::6810:84e5", "2a04:4e42::652",
    "2001:4860:4860::8888", "2001:200::1", "2620:0:860::1", "3ffe::1", "2002:808:808::1", "::ffff:8.8.8.8",
    "64:ff9b::808:808", "191.255.255.255", "192.0.1.1", "168.63.129.15", "168.63.129.17",
)  # fmt: skip


@pytest.mark.parametrize("address", [*METADATA, *SPECIAL])
def test_no_special_address_is_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_public_in_every_form(address: str) -> None:
    assert is_public(address)


def networks() -> list[IPv4Network | IPv6Network]:
    return [ipaddress.ip_network(block) for block, _ in (*IPV4_BLOCKS, *IPV6_BLOCKS)]


def edges_of(block: IPv4Network | IPv6Network) -> Iterator[int]:
    first, last = int(block.network_address), int(block.broadcast_address)
    rng = random.Random(first)
    yield from (first - 1, first, first + 1, rng.randint(first, last), last - 1, last, last + 1)


def forms_of(number: int) -> Iterator[str]:
    """An IPv4 address in every form that leads to it."""
    yield str(IPv4Address(number))
    for prefix in ("::ffff:0:0", "64:ff9b::"):
        yield str(IPv6Address(int(IPv6Address(prefix)) | number))
    yield str(IPv6Address(0x2002 << 112 | number << 80 | 1))


@pytest.mark.parametrize("block", networks(), ids=str)
def test_the_edges_of_every_block_are_where_the_table_says(block: IPv4Network | IPv6Network) -> None:
    for number in edges_of(block):
        if not 0 <= number < 2**block.max_prefixlen:
            continue
        forms = forms_of(number) if block.version == 4 else [str(IPv6Address(number))]
        inside = any(block.version == other.version and holds(other, number) for other in networks())
        leads_on = block.version == 6 and any(holds(IPv6Network(way), number) for way in LEADS_ON)
        if not leads_on:
            assert {is_public(form) for form in forms} == {not inside}, ipaddress.ip_address(number)


LEADS_ON = ("::ffff:0:0/96", "64:ff9b::/96", "2002::/16")


def holds(block: IPv4Network | IPv6Network, number: int) -> bool:
    return int(block.network_address) <= number <= int(block.broadcast_address)


def test_the_blocks_do_not_overlap() -> None:
    found = networks()
    for block in found:
        others = [other for other in found if other is not block and other.version == block.version]
        assert not any(block.overlaps(other) for other in others), block  # type: ignore[arg-type]


OPINIONS = ("is_global", "is_private", "is_reserved", "is_loopback", "is_link_local", "is_multicast")


def test_the_verdict_does_not_rest_on_the_opinion_of_a_version_of_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asked(_: object) -> bool:
        raise AssertionError("Python was asked")

    for kind in (IPv4Address, IPv6Address):
        for name in OPINIONS:
            monkeypatch.setattr(kind, name, property(asked))
    assert is_public("8.8.8.8") and is_public("2606:4700::1")
    assert not any(map(is_public, (*METADATA, *SPECIAL)))
