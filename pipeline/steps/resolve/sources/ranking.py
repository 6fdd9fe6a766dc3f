"""The addresses from all sources, without duplicates, in the order they should be tried. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pipeline.steps.identify import identify
from pipeline.steps.resolve.sources.answer import Address, Rank
from pipeline.steps.resolve.sources.arxiv import pdf_url
from queuemgr import BadInput

MAX_ADDRESSES = 20
"""Addresses kept of one paper: more do not help."""


def ranked(addresses: Iterable[Address], arxiv_url: str) -> tuple[Address, ...]:
    """By rank, then in the order given, which is the order the sources were asked in.

    Unusable URLs are dropped; http and https of one address count as one. Addresses at arXiv become
    its PDF at the configured host, so that arXiv's limit applies.
    """
    usable = [found for found in (_usable(a, arxiv_url) for a in addresses) if found]
    once: dict[str, Address] = {}
    for address in sorted(usable, key=lambda a: a.rank):
        once.setdefault(address.url.partition("://")[2], address)
    return tuple(once.values())[:MAX_ADDRESSES]


def _usable(address: Address, arxiv_url: str) -> Address | None:
    try:
        found = identify(address.url)
    except BadInput:
        return None
    match found.kind:
        case "arxiv":
            url = pdf_url(arxiv_url, found.value, found.version)
            return Address(url, address.source, Rank.OPEN_PDF)
        case "url":
            return replace(address, url=found.value)
        case "doi":
            # A DOI resolves to the publisher's page, whatever the source says.
            return replace(address, rank=max(address.rank, Rank.PAGE))
        case _:
            return None
