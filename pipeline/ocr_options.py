"""The options of the OCR engines according to the settings."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

from pipeline.config import PICTURE_FORMATS, PipelineSettings, names_in
from pipeline.steps.llm.endpoint import Endpoint
from pipeline.steps.llm.usage import Usage
from pipeline.steps.ocr.ocr import OcrOptions
from pipeline.steps.ocr.page_map import Pacing
from pipeline.steps.ocr.rapidocr import LocalOptions
from pipeline.steps.ocr.vision import RemoteOptions, nothing
from pipeline.steps.pdf.drawing_time import DrawingLimits
from queuemgr.steptools.process_lanes import lanes

MOST_RENDERERS = 4
"""Renderers of one document where no number is set: more would take processors from other documents."""


def pacing(config: PipelineSettings, inflight: int) -> Pacing:
    return Pacing(
        inflight,
        config.ocr_window or 2 * inflight,
        config.ocr_max_retries,
        config.ocr_base_delay,
        config.ocr_max_delay,
    )


def ocr_options(
    config: PipelineSettings,
    *,
    inflight: int | None = None,
    spare: int | None = None,
    max_wait: float = float("inf"),
    before_request: Callable[[], Awaitable[object]] = nothing,
    usage: Usage | None = None,
) -> OcrOptions:
    """The options of the engines according to the settings."""
    drawing = DrawingLimits(config.page_seconds, config.document_seconds)
    local = LocalOptions(
        drawing=drawing,
        page_seconds=config.ocr_page_seconds,
        document_seconds=config.ocr_document_seconds,
        threads=lanes().value("model_threads"),
    )
    if not config.ocr_base_url:
        return OcrOptions(config.ocr_engine, config.ocr_languages, local)
    key = config.ocr_api_key.get_secret_value()
    endpoint = Endpoint(config.ocr_base_url, config.ocr_model, key, config.ocr_timeout)
    remote = RemoteOptions(
        endpoint,
        pacing(config, inflight or config.ocr_inflight),
        config.ocr_max_tokens,
        renderers=config.ocr_renderers or min(MOST_RENDERERS, os.cpu_count() or 1),
        spare=spare,
        max_wait=max_wait,
        before_request=before_request,
        usage=usage or Usage(),
        drawing=drawing,
        formats=tuple(name for name in names_in(config.ocr_formats) if name in PICTURE_FORMATS),
    )
    return OcrOptions(config.ocr_engine, config.ocr_languages, local, remote)
