"""For an application's migrations: `AddIndexConcurrently` is `AddIndex` that does not block writers.

Its migration needs `atomic = False`; on SQLite, which has a single writer anyway, it is the plain operation.

`TrigramIndex(model, field)` is an index by which `icontains` finds any part of a text on PostgreSQL: call its
`make()` after `migrate` (Django's signal `post_migrate`), and let a check of `doctor` say that it
`is_missing()`, for whose user may not create the extension pg_trgm.

`RenameErrorKinds({"old": "new"})` renames error kinds of yours in what is stored.
"""

from queuemgr.base.online_ddl import AddIndexConcurrently, TrigramIndex
from queuemgr.lifecycle.renamed_error_kinds import RenameErrorKinds

__all__ = ["AddIndexConcurrently", "RenameErrorKinds", "TrigramIndex"]
