"""Links from the values on the dashboard to the lists of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import NoReverseMatch, reverse
from django.utils.http import urlencode


@dataclass(frozen=True)
class Links:
    """Addresses for one user; empty if the page does not exist or the user may not see it."""

    person: Any

    def to(self, page: str, *args: Any, may: str, **query: Any) -> str:
        """An admin page with filters; `may` is the permission it needs."""
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
