"""For an application's own routes of HTTP.

`allowed(scope, permission)` decorates a Django view: it answers whoever has logged in, or sends a token of
the API with this scope, and whose user has this permission; others get a problem as from the API's routes.
"""

from queuemgr.web.api.own_views import allowed

__all__ = ["allowed"]
