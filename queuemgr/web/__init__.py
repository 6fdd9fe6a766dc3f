"""A Django app of its own: admin pages, HTTP API, metrics and health."""

from queuemgr.base.extras import need_extra

need_extra("web", "ninja", "prometheus_client", "unfold", "waitress")
