import sys

from django.apps import AppConfig


class QueuemgrConfig(AppConfig):
    """Flow control for Celery. List it after the apps that register flows: as it becomes ready it checks
    the settings of their phases, and ends a process whose settings cannot work with exit code 3."""

    name = "queuemgr"
    verbose_name = "Queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from queuemgr.base.errors import ConfigurationError
        from queuemgr.scheduling.phase_caps import phase_caps
        from queuemgr.worker import probe_flow

        probe_flow.register()
        try:
            phase_caps()
        except ConfigurationError as error:
            sys.stderr.write(f"configuration: {error}\n")
            raise SystemExit(3) from None
