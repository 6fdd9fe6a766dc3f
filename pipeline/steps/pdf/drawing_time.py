"""How long the pages of a document may take to be drawn: a few bytes can cost minutes a page. Pure."""

from __future__ import annotations

from dataclasses import dataclass

USUAL_SECONDS = 2.0
"""Processor time of a page that counts to no limit: a scan takes 0.02 s to draw, one in JPEG 2000 at 600 dpi
a second, and there may be a thousand."""

OVER = "drawing the document took longer than its time limit"


@dataclass(frozen=True)
class DrawingLimits:
    """Seconds for drawing one page (wall time), and for all of a document beyond what is usual for them."""

    page_seconds: float = 20.0
    document_seconds: float = 120.0


class DrawingTime:
    """What drawing a document took so far."""

    def __init__(self, limits: DrawingLimits) -> None:
        self._left = limits.document_seconds

    def add(self, seconds: float) -> None:
        """A page was drawn in so many seconds."""
        self.lose(max(0.0, seconds - USUAL_SECONDS))

    def lose(self, seconds: float) -> None:
        """A page was not drawn within so many seconds."""
        self._left -= seconds

    @property
    def is_over(self) -> bool:
        return self._left <= 0
