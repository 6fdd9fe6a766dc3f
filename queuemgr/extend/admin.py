"""For an application's admin pages.

`ReadOnlyAdmin` is a Django model admin without adding, deleting and editing; `BoundedPaginator` counts at
most ten thousand rows, so that pages of large tables stay fast.
"""

from queuemgr.web.admin.bounded_count import BoundedPaginator
from queuemgr.web.admin.read_only_admin import ReadOnlyAdmin

__all__ = ["BoundedPaginator", "ReadOnlyAdmin"]
