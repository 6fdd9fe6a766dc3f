"""For an application's admin pages: lists of rows that stay, counted only as far as a person reads."""

from queuemgr.web.admin.bounded_count import BoundedPaginator
from queuemgr.web.admin.read_only_admin import ReadOnlyAdmin

__all__ = ["BoundedPaginator", "ReadOnlyAdmin"]
