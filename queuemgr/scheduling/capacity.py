"""Matches unstarted leases with idle slots, so that no lease is granted to a queue without one. Pure.

Without a slot its message would wait behind a busy worker. Slots that take the same form a group: those of
workers of the same queues. An unstarted lease may go to any group that takes it; a new one is matched along
augmenting paths, so it is refused only when no arrangement has room.

A worker has slots, and may have async slots beside them. A lease is sent for one kind: what a slot takes is
named by its queue, and what an async slot takes by `async_queue`. Work of an asynchronous step is for async
slots, and for the slots of workers that have none of these: it may take `either`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from queuemgr.flows.flow import async_queue

Group = frozenset[str]
"""What the slots of a group of workers take."""


def either(queue: str) -> str:
    """What work of asynchronous steps in this queue may take."""
    return f"{queue} either"


def is_either(name: str) -> bool:
    return name.endswith(either(""))


def group_of(queues: Iterable[str], *, has_async: bool) -> Group:
    """What the slots take of a worker that consumes these queues; `has_async`: if it has async slots, too."""
    names = list(queues)
    return Group(names if has_async else [*names, *map(either, names)])


def async_group_of(queues: Iterable[str]) -> Group:
    """What its async slots take."""
    return Group(name for queue in queues for name in (async_queue(queue), either(queue)))


def queue_of(name: str) -> str:
    """The queue of work that takes slots of this name."""
    return name.removesuffix(either("")).removesuffix(async_queue(""))


def takes_async(group: Group) -> bool:
    """Whether these are async slots."""
    return any(name.endswith(async_queue("")) for name in group)


class Capacity:
    """Idle slots by group, and which leases are matched with them, by what these are to take."""

    def __init__(self, idle: Mapping[Group, int], unstarted: Mapping[str, int]) -> None:
        """`idle`: slots not running anything, by group; `unstarted`: unstarted leases by what they take."""
        self._free: Counter[Group] = Counter(idle)
        self._matched: Counter[tuple[Group, str]] = Counter()
        for queue, count in unstarted.items():
            left = count - self._take_free(queue, count)
            while left and self.take(queue):
                left -= 1

    def _take_free(self, queue: str, count: int) -> int:
        """Match as many leases as fit without moving others; returns how many."""
        taken = 0
        for group in self._free:
            some = min(count - taken, self._free[group]) if queue in group else 0
            if some > 0:
                self._free[group] -= some
                self._matched[group, queue] += some
                taken += some
        return taken

    @property
    def free(self) -> int:
        """Idle slots nothing is matched with."""
        return sum(count for count in self._free.values() if count > 0)

    @property
    def free_by_group(self) -> Mapping[Group, int]:
        return {group: count for group, count in self._free.items() if count > 0}

    def take(self, queue: str) -> bool:
        """Match one more lease that takes this with an idle slot; False when none can be freed for it."""
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
        """How many leases that take this are matched with slots of this group."""
        return self._matched[group, queue]

    def matched_async(self, queue: str) -> int:
        """How many leases of asynchronous steps in this queue are matched with async slots."""
        name = either(queue)
        matched = self._matched.items()
        return sum(n for (group, taken), n in matched if n and taken == name and takes_async(group))
