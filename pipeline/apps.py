from django.apps import AppConfig


class PipelineAppConfig(AppConfig):
    """Papers; their flow is in `flows.py`."""

    name = "pipeline"
    verbose_name = "Papers"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from pipeline import search  # noqa: F401  # it registers the search of papers
