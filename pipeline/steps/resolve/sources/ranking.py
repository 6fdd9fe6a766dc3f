"""Of all the addresses sources gave, each once, in the order they should be tried. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pipeline.steps.identify import identify
from pipeline.steps.resolve.sources.answer import Address, Rank
from pipeline.steps.resolve.sources.arxiv import pdf_url
from queuemgr import BadInput

MOST = 20
"""Addresses kept of one paper: beyond so many the next is no better."""


def in_order(addresses: Iterable[Address], arxiv_url: str) -> tuple[Address, ...]:
    """By rank; of the same rank in the order given, which is the order sources were asked in.

    What is no usable URL is dropped. http and https of one address count as one. Addresses at arXiv
    are turned to its PDF at the operator's choice of host, so that they pass arXiv's limit.
    """
    usable = [found for found in (_usable(a, arxiv_url) for a in addresses) if found]
    once: dict[str, Address] = {}
    for address in sorted(usable, key=lambda a: a.rank):
        once.setdefault(address.url.partition("://")[2], address)
    return tuple(once.values())[:MOST]


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
            # A DOI's own address leads to the publisher's page, whatever a source takes it for.
            return replace(address, rank=max(address.rank, Rank.PAGE))
        case _:
            return None
