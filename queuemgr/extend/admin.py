"""For an application's admin pages.

`ReadOnlyAdmin` is a Django model admin without adding, deleting and editing; `BoundedPaginator` counts at
most ten thousand rows, so that pages of large tables stay fast; `ChoiceFilter` is a list filter whose
choices need no query; `csv_line(cells)` is a line of CSV in which no spreadsheet finds a formula.
"""

from queuemgr.base.csv_text import csv_line
from queuemgr.web.admin.filters import ChoiceFilter
from queuemgr.web.admin.read_only_admin import BoundedPaginator, ReadOnlyAdmin

__all__ = ["BoundedPaginator", "ChoiceFilter", "ReadOnlyAdmin", "csv_line"]
