"""Which of the values that processes state of one limit is in force. Pure.

A value that nobody stated before is the newest. An older one comes back by a rollback only: once every worker
that states a newer one has been gone for a while. So an old worker that restarts during a deploy changes
nothing, and neither does one that is alone while the new ones restart.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

MOST_REMEMBERED = 20
"""How many values of one limit are remembered: one that was stated before that counts as new."""

SETTLED = timedelta(minutes=10)
"""After so long in force without a worker that states a newer value, an older one counts as the newest."""


@dataclass(frozen=True, slots=True)
class StatementOrder:
    """Digests of the values stated of one limit, the newest last; the one in force, and since when."""

    digests: tuple[str, ...]
    in_force: str
    since: datetime | None = None

    def takes_effect_at_start(self, digest: str) -> bool:
        """Whether what a process states as it starts is in force at once."""
        return digest not in self.digests or self._age(digest) > self._age(self.in_force)

    def after_rollback(self, stated: Collection[str], lately: Collection[str]) -> str | None:
        """The digest to be in force when live workers state these, if another than now is; `lately` are those
        of workers that live or did until lately."""
        known = [digest for digest in self.digests if digest in stated]
        if not known or known[-1] == self.in_force:
            return None
        newest = known[-1]
        if self._age(newest) > self._age(self.in_force):
            return newest
        return None if self._is_newer_stated(newest, lately) else newest

    def is_settled(self, lately: Collection[str], now: datetime) -> bool:
        """Whether the one in force has replaced newer ones for good."""
        if self.digests[-1:] == (self.in_force,) or self.since is None or now - self.since < SETTLED:
            return False
        return self.in_force in lately and not self._is_newer_stated(self.in_force, lately)

    def put_in_force(self, digest: str, now: datetime, *, as_newest: bool) -> Self:
        """The order with this one in force; with `as_newest`, or if it is new, as the newest."""
        if not as_newest and digest in self.digests:
            return replace(self, in_force=digest, since=now)
        others = [known for known in self.digests if known != digest]
        return replace(self, digests=(*others, digest)[-MOST_REMEMBERED:], in_force=digest, since=now)

    def _is_newer_stated(self, digest: str, lately: Collection[str]) -> bool:
        return any(known in lately for known in self.digests[self._age(digest) + 1 :])

    def _age(self, digest: str) -> int:
        return self.digests.index(digest)
