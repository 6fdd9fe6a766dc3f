"""Which names become labels of their own: a bounded set, however many keys, limits and errors there are."""

from __future__ import annotations

from collections.abc import Collection, Iterable

LIMITS = 50
"""Limits with a label of their own, at most; the rest are summed by kind."""

OTHER = "other"


def own_labels(limits: Collection[str], phases: Iterable[str]) -> frozenset[str]:
    """The limits told one by one: fleet, phases and tokens, and rows that no pattern stands for.

    Not the rows of single hosts or tenants: those are a pattern's keys, and grow with what is met.
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
    """The label a limit is told under: its own, or its kind, such as `host:*`.

    Kinds are made by flows, as error kinds are: those of names without one are `other`.
    """
    if limit in own:
        return limit
    kind, colon, _ = limit.partition(":")
    return f"{kind}:*" if colon else OTHER


def bounded(kind: str, known: Collection[str]) -> str:
    """An error kind somebody declared, or `other`."""
    return kind if not kind or kind in known else OTHER
