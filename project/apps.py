import gc

from django.apps import AppConfig

COLLECT_AFTER = 700, 10, 10
"""Python's own numbers."""


class ProjectConfig(AppConfig):
    name = "project"

    def ready(self) -> None:
        """What is imported stays: the garbage collector need not look at it. It works as usual from here on,
        since what steps leave behind may hold whole pages."""
        gc.freeze()
        gc.set_threshold(*COLLECT_AFTER)
