from django.apps import AppConfig


class PipelineWebConfig(AppConfig):
    """The pages of papers: collection, documents, reports."""

    name = "pipeline.web"
    label = "pipeline_web"
    verbose_name = "Papers pages"
