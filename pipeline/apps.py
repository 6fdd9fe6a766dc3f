from django.apps import AppConfig
from django.db.models.signals import post_migrate


class PipelineAppConfig(AppConfig):
    """Papers; their flow is in `flows.py`."""

    name = "pipeline"
    verbose_name = "Papers"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from pipeline import search

        post_migrate.connect(search.make_indexes, sender=self, dispatch_uid="pipeline.search")
