from django.apps import AppConfig


class QueuemgrConfig(AppConfig):
    """Flow control for Celery: importing the app makes the probe flow known."""

    name = "queuemgr"
    verbose_name = "Queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from queuemgr.worker import probe_flow

        probe_flow.register()
