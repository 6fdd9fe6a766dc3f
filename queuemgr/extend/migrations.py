"""For an application's migrations: `AddIndexConcurrently` is `AddIndex` that does not block writers.

Its migration needs `atomic = False`; on SQLite, which has a single writer anyway, it is the plain operation.
"""

from queuemgr.base.online_ddl import AddIndexConcurrently

__all__ = ["AddIndexConcurrently"]
