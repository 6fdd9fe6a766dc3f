"""Matches unstarted leases with idle slots, so that no lease is granted to a queue without one. Pure.

Without a slot its message would wait behind a busy worker. Workers of the same queues form a group; an
unstarted lease may go to any group that consumes its queue; a new one is matched along augmenting paths,
so it is refused only when no arrangement has room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

Group = frozenset[str]
"""The queues a group of workers consumes."""


class Capacity:
    """Idle slots by group, and which queue's leases are matched with them."""

    def __init__(self, idle: Mapping[Group, int], unstarted: Mapping[str, int]) -> None:
        """`idle`: slots not running anything, by group; `unstarted`: unstarted leases by queue."""
        self._free: Counter[Group] = Counter(idle)
        self._matched: Counter[tuple[Group, str]] = Counter()
        for queue, count in unstarted.items():
            for _ in range(count):
                if not self.take(queue):
                    break

    @property
    def free(self) -> int:
        """Idle slots nothing is matched with."""
        return sum(count for count in self._free.values() if count > 0)

    def take(self, queue: str) -> bool:
        """Match one more lease of this queue with an idle slot; False when none can be freed for it."""
        return self._place(queue, visited=set())

    def _place(self, queue: str, visited: set[Group]) -> bool:
        consumers = [group for group in self._free if queue in group and group not in visited]
        for group in consumers:
            if self._free[group] > 0:
                self._free[group] -= 1
                self._matched[group, queue] += 1
                return True
        return any(self._make_room(group, queue, visited) for group in consumers)

    def _make_room(self, group: Group, queue: str, visited: set[Group]) -> bool:
        visited.add(group)
        for (holder, other), count in list(self._matched.items()):
            if holder == group and count and other != queue and self._place(other, visited):
                self._matched[group, other] -= 1
                self._matched[group, queue] += 1
                return True
        return False

    def matched(self, group: Group, queue: str) -> int:
        """How many leases of this queue are matched with slots of this group."""
        return self._matched[group, queue]
