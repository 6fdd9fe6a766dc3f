"""For an application's admin pages.

`ReadOnlyAdmin` is a Django model admin without adding, deleting and editing; `BoundedPaginator` counts at
most ten thousand rows, so that pages of large tables stay fast; `ChoiceFilter` is a list filter whose
choices need no query; `csv_line(cells)` is a line of CSV in which no spreadsheet finds a formula.
`actor_of(request)` is who acts, with the reason of its form, for the audit log; `render_page(request, name,
**context)` is a page of the queue's own templates, as `stop_with_reason`, which asks for a reason.
"""

from queuemgr.base.csv_text import csv_line
from queuemgr.web.admin.filters import ChoiceFilter
from queuemgr.web.admin.read_only_admin import BoundedPaginator, ReadOnlyAdmin, actor_of, render_page

__all__ = ["BoundedPaginator", "ChoiceFilter", "ReadOnlyAdmin", "actor_of", "csv_line", "render_page"]
