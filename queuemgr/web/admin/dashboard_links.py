"""Where the figures of the dashboard lead: to the list that shows their rows.

A link is left out where the page is not there, or not for this person.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode


@dataclass(frozen=True)
class Links:
    """Addresses for one person; empty ones are no links."""

    person: Any

    def to(self, page: str, *args: Any, may: str, **query: Any) -> str:
        """An admin page, filtered; `may` is the permission it takes."""
        if not self.person.has_perm(f"queuemgr.{may}"):
            return ""
        try:
            address = reverse(f"admin:{page}", args=args)
        except NoReverseMatch:
            return ""
        return f"{address}?{urlencode(query)}" if query else address

    def executions(self, **query: Any) -> str:
        return self.to("queuemgr_execution_changelist", may="view_execution", **query)

    def attempts(self, **query: Any) -> str:
        return self.to("queuemgr_attempt_changelist", may="view_attempt", **query)
