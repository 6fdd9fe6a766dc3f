"""Which value of a limit may have been in force at a time, given that an edit takes a moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

from proof.records import Edit

NO_CAP = float("inf")


class LimitValues:
    """The values set by operators, by limit; a key without its own row has those of the longest matching
    pattern."""

    def __init__(self, edits: Iterable[Edit]) -> None:
        self._edits: defaultdict[tuple[str, str], list[Edit]] = defaultdict(list)
        for edit in sorted(edits, key=lambda edit: edit.began):
            self._edits[edit.limit, edit.field].append(edit)

    def most_running(self, name: str, since: float, until: float) -> float:
        """The highest cap that may have been in force at any time from `since` to `until`."""
        caps = (value or NO_CAP for value in self._in_force(name, "max_running", since, until))
        return max(caps, default=NO_CAP)

    def open_to_all(self, name: str, since: float, until: float) -> float:
        """The highest part of the cap that work below high priority may have used; no cap where nothing is
        reserved."""
        reserved = self._in_force(name, "reserved_high", since, until)
        least = min((value or 0 for value in reserved), default=0)
        return max(0, self.most_running(name, since, until) - least) if least else NO_CAP

    def most_budget(self, name: str, since: float, until: float) -> float:
        """The highest daily budget that may have been in force."""
        budgets = self._in_force(name, "daily_budget", since, until)
        return max((NO_CAP if b is None else b for b in budgets), default=NO_CAP)

    def allowances(self, name: str, since: float, until: float) -> list[str]:
        """The texts of allowances that may have been in force."""
        return [str(text) for text in self._in_force(name, "allowances", since, until)]

    def with_budget(self) -> list[str]:
        """The limits that ever had a budget."""
        return sorted({name for name, field in self._edits if field == "daily_budget"})

    def rule_of(self, name: str, field: str) -> str:
        """The limit, or the pattern whose values are those of this key; empty for none."""
        if (name, field) in self._edits:
            return name
        patterns = (p for p, of in self._edits if of == field and p.endswith("*"))
        alike = (pattern for pattern in patterns if name.startswith(pattern[:-1]))
        return max(alike, key=len, default="")

    def _in_force(self, name: str, field: str, since: float, until: float) -> Iterator[Any]:
        edits = self._edits.get((self.rule_of(name, field), field), [])
        for edit, following in zip_longest(edits, edits[1:]):
            replaced_before = following is not None and following.done < since
            if edit.began <= until and not replaced_before:
                yield edit.value
