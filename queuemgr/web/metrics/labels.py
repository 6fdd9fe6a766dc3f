"""Maps limits and error kinds to a bounded set of label values."""

from __future__ import annotations

from collections.abc import Collection, Iterable

LIMITS = 50
"""Maximum number of limits with their own label value; the others are summed by kind."""

OTHER = "other"


def own_labels(limits: Collection[str], phases: Iterable[str]) -> frozenset[str]:
    """The limits with their own label value: fleet, phases, tokens, and rows that match no pattern.

    Not the rows of single hosts or tenants: their number is unbounded.
    """
    first = ["fleet", *(f"phase:{phase}" for phase in phases)]
    kinds = {name.partition(":")[0] for name in limits if name.endswith("*")}
    others = sorted(
        (":" in name, name)
        for name in limits
        if name not in first and not name.endswith("*") and name.partition(":")[0] not in kinds
    )
    known = [name for name in first if name in limits]
    return frozenset([*known, *(name for _, name in others)][:LIMITS])


def label_of(limit: str, own: Collection[str]) -> str:
    """Its own label value, or its kind such as `host:*`; `other` for names without a kind."""
    if limit in own:
        return limit
    kind, colon, _ = limit.partition(":")
    return f"{kind}:*" if colon else OTHER


def bounded(kind: str, known: Collection[str]) -> str:
    """A declared error kind, or `other`."""
    return kind if not kind or kind in known else OTHER
