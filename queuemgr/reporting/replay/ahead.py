"""What would become of allowances if limits were changed: forecasts of remaining work, before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from queuemgr.base.scheduler_lock import database_now
from queuemgr.reporting import stats
from queuemgr.reporting.remaining_work import RemainingWork, remaining_work, with_used_of
from queuemgr.reporting.replay.what_if import parse_changes, rule_with
from queuemgr.scheduling.claims import rule_name
from queuemgr.scheduling.decision_input import NO_USE, LimitRule, Snapshot
from queuemgr.scheduling.snapshot import read_snapshot

MOST_KEYS = 100
"""Keys of a pattern that are forecast: those in use, and those that work waits for."""


def forecasts(changes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Each changed limit, of a pattern its keys, with its allowances as they are and as they would be.

    `changes` are written as for a replay. Raises `BadInput` for one that is not valid.
    """
    now = database_now()
    snapshot = read_snapshot(now)
    parsed = parse_changes(changes, set(snapshot.use))
    changed = {name: rule_with(name, values, now) for name, values in parsed.items()}
    before = remaining_work(snapshot.rules, now)
    after = remaining_work({**snapshot.rules, **changed}, now)
    for name, rule in changed.items():
        names = _keys_of(name, snapshot, after)
        snapshot = stats.with_spent([each for each in names if each not in snapshot.use], snapshot)
        for key in names:
            yield _one(key, snapshot, rule, before, after)


def _keys_of(name: str, snapshot: Snapshot, remaining: RemainingWork) -> list[str]:
    if not name.endswith("*"):
        return [name]
    there = {*snapshot.use, *(limit for limit, _ in remaining.needs)}
    rows: Mapping[str, LimitRule] = {**snapshot.rules, name: snapshot.rule(name)}
    return sorted(key for key in there if rule_name(key, rows) == name)[:MOST_KEYS]


def _one(
    key: str, snapshot: Snapshot, rule: LimitRule, before: RemainingWork, after: RemainingWork
) -> dict[str, Any]:
    now, use = snapshot.now, snapshot.use.get(key, NO_USE)
    then = with_used_of(key, rule, use, now)
    return {
        "limit": key,
        "as_is": [each.in_words(now) for each in before.statuses(key, snapshot.rule(key), use)],
        "changed": [each.in_words(now) for each in after.statuses(key, rule, then)],
    }
