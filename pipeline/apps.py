from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class PipelineAppConfig(AppConfig):
    """Papers; their flow is in `flows.py`."""

    name = "pipeline"
    verbose_name = "Papers"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        post_migrate.connect(make_search_indexes, sender=self, dispatch_uid="pipeline.search")


def make_search_indexes(**kwargs: Any) -> None:
    """After `migrate`, not `flush`."""
    from pipeline import queue_search

    for index in queue_search.INDEXES if "plan" in kwargs else ():
        index.make()
