"""The retry policies in force: rows an operator edits while work runs, made from the flows' defaults.

A row for a phase wins over the one for every phase; a kind without a row has its default policy.
"""

from __future__ import annotations

from dataclasses import asdict

from queuemgr.base.errors import BadInput
from queuemgr.flows.flow import all_error_kinds, all_phases, default_policy
from queuemgr.flows.retry_policy import Policy
from queuemgr.models import RetryPolicy
from queuemgr.scheduling.settings_sync import record_settings_change

POLICY_FIELDS = ("max_attempts", "base", "ceiling", "jitter")


def policy_for(kind: str, phase: str) -> Policy:
    """The policy for this kind of error in this phase."""
    rows = {row.phase: row for row in RetryPolicy.objects.filter(kind=kind, phase__in=("", phase))}
    row = rows.get(phase) or rows.get("")
    if row is None:
        return default_policy(kind)
    return Policy(row.max_attempts, row.base, row.ceiling, row.jitter, row.meaning)


def meaning_of(kind: str) -> str:
    """What this kind of error means, in a sentence."""
    return policy_for(kind, "").meaning


def new_row(kind: str, phase: str) -> RetryPolicy:
    """A row to be, with the figures its work goes by so far. Not saved."""
    return RetryPolicy(kind=kind, phase=phase, **asdict(policy_for(kind, phase)))


def kinds() -> list[str]:
    """The kinds of error there is a policy for."""
    rows = RetryPolicy.objects.filter(phase="").values_list("kind", flat=True)
    return sorted({*all_error_kinds(), *rows})


def check(kind: str, phase: str) -> None:
    """Refuse a kind of error or a phase nobody knows, saying which there are."""
    if kind not in kinds():
        raise BadInput(f"no error is called {kind!r}; there are: {', '.join(kinds())}")
    if phase and phase not in all_phases():
        raise BadInput(f"no phase is called {phase!r}; there are: {', '.join(all_phases())}")


def sync() -> None:
    """Make the row of every kind there is; one an operator edited is left alone, a figure that
    changed in the table is written."""
    defaults = all_error_kinds()
    rows = {row.kind: row for row in RetryPolicy.objects.filter(phase="")}
    missing = [
        RetryPolicy(kind=kind, **asdict(policy), from_settings=_figures(policy))
        for kind, policy in defaults.items()
        if kind not in rows
    ]
    RetryPolicy.objects.bulk_create(missing, ignore_conflicts=True)
    for kind, row in rows.items():
        if kind in defaults:
            _follow(row, defaults[kind])


def _figures(policy: Policy) -> dict[str, float]:
    return {name: getattr(policy, name) for name in POLICY_FIELDS}


def _follow(row: RetryPolicy, policy: Policy) -> None:
    stated = _figures(policy)
    changed = {
        name: value for name, value in stated.items() if row.from_settings.get(name) != value
    }
    if changed:
        before = {name: getattr(row, name) for name in changed}
        record_settings_change("edit retry policy", str(row), before, changed, forced=False)
        for name, value in changed.items():
            setattr(row, name, value)
        row.from_settings = stated
        row.save()
