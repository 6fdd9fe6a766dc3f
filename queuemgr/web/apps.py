from django.apps import AppConfig


class QueuemgrWebConfig(AppConfig):
    """Admin pages, HTTP API, metrics and health: a worker or another project can leave them out."""

    name = "queuemgr.web"
    label = "queuemgr_web"
    verbose_name = "Queue pages"
