from django.apps import AppConfig


class PipelineAppConfig(AppConfig):
    """Papers: registers the papers flow."""

    name = "pipeline"
    verbose_name = "Papers"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from pipeline.flow import PAPERS
        from queuemgr import register_flow

        register_flow(PAPERS)
