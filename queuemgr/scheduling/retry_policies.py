"""The retry policies in force: rows an operator edits while work runs, made from the flows' defaults.

A row for a phase wins over the one for every phase; a kind without a row has its default policy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from queuemgr.base.errors import BadInput
from queuemgr.flows.flow import all_error_kinds, all_phases, default_policy
from queuemgr.flows.retry_policy import Policy
from queuemgr.models import RetryPolicy
from queuemgr.scheduling import settings_sync

POLICY_FIELDS = ("max_attempts", "base", "ceiling", "jitter")


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """The rows of some kinds of error, by kind and phase."""

    rows: Mapping[tuple[str, str], RetryPolicy]

    def policy_for(self, kind: str, phase: str) -> Policy:
        row = self.rows.get((kind, phase)) or self.rows.get((kind, ""))
        if row is None:
            return default_policy(kind)
        return Policy(row.max_attempts, row.base, row.ceiling, row.jitter, row.meaning)


def table_of(kinds: Collection[str]) -> PolicyTable:
    rows = RetryPolicy.objects.filter(kind__in=kinds) if kinds else ()
    return PolicyTable({(row.kind, row.phase): row for row in rows})


def policy_for(kind: str, phase: str) -> Policy:
    return table_of([kind]).policy_for(kind, phase)


def meaning_of(kind: str) -> str:
    """What this kind of error means, in a sentence."""
    return policy_for(kind, "").meaning


def new_row(kind: str, phase: str) -> RetryPolicy:
    """A new row, not saved, with the values of the policy in force."""
    return RetryPolicy(kind=kind, phase=phase, **asdict(policy_for(kind, phase)))


def kinds() -> list[str]:
    rows = RetryPolicy.objects.filter(phase="").values_list("kind", flat=True)
    return sorted({*all_error_kinds(), *rows})


def check(kind: str, phase: str) -> None:
    """Raise `BadInput` for an unknown kind of error or phase, naming those there are."""
    if kind not in kinds():
        raise BadInput(f"no error kind is called {kind!r}; there are: {', '.join(kinds())}")
    if phase and phase not in all_phases():
        raise BadInput(f"no phase is called {phase!r}; there are: {', '.join(all_phases())}")


def stated() -> dict[str, dict[str, Any]]:
    """Field values of the policies that this release states, by kind of error."""
    return {
        kind: {name: getattr(policy, name) for name in POLICY_FIELDS}
        for kind, policy in all_error_kinds().items()
    }


def sync(*, as_newest: bool = False) -> None:
    """Write the defaults that changed into the rows of all kinds."""
    states = stated()
    for row in RetryPolicy.objects.filter(phase="", kind__in=states).order_by("kind"):
        settings_sync.state(row, states[row.kind], as_newest=as_newest)


def make_missing() -> None:
    """Insert the missing rows of all kinds."""
    known = RetryPolicy.objects.filter(phase="").values_list("kind", flat=True)
    policies, made = all_error_kinds(), settings_sync.as_made(stated(), known)
    rows = [RetryPolicy(kind=kind, meaning=policies[kind].meaning, **made[kind]) for kind in made]
    RetryPolicy.objects.bulk_create(rows, ignore_conflicts=True)
