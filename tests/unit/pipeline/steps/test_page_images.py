"""How far ahead pages are rendered, and what happens if a page crashes its child; the child is a fake."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from pipeline.steps.pdf import page_images, renderer
from pipeline.steps.pdf.drawing_time import OVER, USUAL_SECONDS, DrawingLimits
from pipeline.steps.pdf.page_images import MAX_RESTARTS, PageImages, Picture
from pipeline.steps.pdf.page_images_pool import SharedPageImages
from pipeline.steps.pdf.page_outcomes import PdfError
from pipeline.steps.pdf.renderer import RenderOptions, RenderProcess, RenderRequest
from queuemgr.base.errors import Aborted, StepFailed
from queuemgr.flows.abort_signal import NEVER

DRAWING = RenderOptions(limits=DrawingLimits(page_seconds=0.2))


class FakeRenderProcess:
    """A fake child: `ends` are pages that crash it, `hangs` pages on which it hangs; each `takes` so many
    seconds."""

    made: list[FakeRenderProcess]
    ends: frozenset[int]
    hangs: frozenset[int]
    takes = 0.01
    ran_out_of_memory = False

    def __init__(self, pdf: Path, drawing: RenderOptions) -> None:
        self.requested: list[int] = []
        self._lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.is_closed = False
        type(self).made.append(self)

    async def opened(self) -> dict[str, Any]:
        return {"count": 1000}

    def ask(self, request: RenderRequest) -> None:
        page, quarters = request
        self.requested.append(page)
        if page in self.ends:
            self._lines.put_nowait({})
        elif page not in self.hangs:
            self._lines.put_nowait({"page": page, "quarters": quarters, "size": 1, "seconds": self.takes})

    async def line(self) -> dict[str, Any]:
        return await self._lines.get()

    async def picture(self, size: int) -> bytes:
        return b"x" * size

    def kill(self) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def renderers(monkeypatch: pytest.MonkeyPatch) -> type[FakeRenderProcess]:
    class RenderProcess(FakeRenderProcess):
        made = []
        ends = hangs = frozenset()

    monkeypatch.setattr(page_images, "RenderProcess", RenderProcess)
    return RenderProcess


Use = Callable[[PageImages], Coroutine[Any, Any, None]]


def using(count: int, window: int, use: Use, **marks: int) -> None:
    async def run() -> None:
        pages = range(1, count + 1)
        async with PageImages(Path("x.pdf"), pages, window, DRAWING, NEVER, **marks) as images:
            await use(images)

    asyncio.run(asyncio.wait_for(run(), timeout=20))


async def failure_of(images: PageImages, index: int) -> str:
    try:
        await images.take(index)
    except PdfError as error:
        return error.message
    return ""


def test_nothing_is_rendered_before_the_first_page_is_requested(renderers: type[FakeRenderProcess]) -> None:
    async def use(images: PageImages) -> None:
        await asyncio.sleep(0.05)
        assert renderers.made[0].requested == []

    using(100, 64, use)


def test_below_the_low_mark_pages_are_rendered_up_to_the_high_mark(
    renderers: type[FakeRenderProcess],
) -> None:
    async def use(images: PageImages) -> None:
        requested = renderers.made[0].requested
        assert await images.take(0) == Picture(b"x")
        assert requested == list(range(1, 14)), "one taken, twelve on their way"
        for index in range(1, 9):
            await images.take(index)
        assert len(requested) == 13, "four are left: not below the mark"
        await images.take(9)
        assert len(requested) == 10 + 12

    using(100, 64, use, low=4, high=12)


def test_no_page_is_rendered_a_window_ahead_of_the_oldest_not_delivered(
    renderers: type[FakeRenderProcess],
) -> None:
    async def use(images: PageImages) -> None:
        requested = renderers.made[0].requested
        for index in range(6):
            await images.take(index)
        assert requested == [1, 2, 3, 4, 5, 6]
        images.delivered(2)
        assert requested == [1, 2, 3, 4, 5, 6, 7, 8]

    using(100, 6, use)


def test_a_page_that_crashes_its_child_fails_alone(renderers: type[FakeRenderProcess]) -> None:
    renderers.ends = frozenset({2})

    async def use(images: PageImages) -> None:
        assert [await failure_of(images, index) for index in range(5)] == [
            "", "The page could not be rendered: it crashed the program rendering it.", "", "", "",
        ]  # fmt: skip

    using(5, 5, use)
    assert [made.is_closed for made in renderers.made] == [True, True]
    assert renderers.made[1].requested == [3, 4, 5], "requested from the second child, without page 2"


def test_a_page_that_hangs_is_reported_and_its_child_replaced(renderers: type[FakeRenderProcess]) -> None:
    renderers.hangs = frozenset({1})

    async def use(images: PageImages) -> None:
        assert "the time limit of a page" in await failure_of(images, 0)
        assert await images.take(1) == Picture(b"x")

    using(2, 2, use)
    assert len(renderers.made) == 2


def test_after_too_many_restarts_the_document_is_given_up(renderers: type[FakeRenderProcess]) -> None:
    renderers.ends = frozenset(range(1, 100))

    async def use(images: PageImages) -> None:
        failures = [await failure_of(images, index) for index in range(20)]
        assert all("could not be rendered" in each for each in failures[: MAX_RESTARTS + 1])
        assert all("too many of its pages" in each for each in failures[MAX_RESTARTS + 1 :])

    using(20, 20, use)
    assert len(renderers.made) == MAX_RESTARTS + 1
    assert all(made.is_closed for made in renderers.made)


def test_a_document_that_takes_too_long_to_draw_is_given_up(renderers: type[FakeRenderProcess]) -> None:
    """Pages that take what pages take do not count, however many there are."""
    renderers.takes = DRAWING.limits.document_seconds / 2.5

    async def use(images: PageImages) -> None:
        for index in range(3):
            await images.take(index)
        for index in range(3, 20):
            with pytest.raises(PdfError, match=OVER) as caught:
                await images.take(index)
            assert caught.value.kind == "resource_limit"

    using(20, 1, use, low=1, high=1)
    assert len(renderers.made) == 1
    renderers.takes = USUAL_SECONDS

    async def all_of_them(images: PageImages) -> None:
        for index in range(200):
            await images.take(index)

    using(200, 1, all_of_them)


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (OSError(errno.EAGAIN, "no process left"), StepFailed, "no process left"),
        (RuntimeError("odd"), StepFailed, "RuntimeError"),
        (Aborted("stop"), Aborted, "stop"),
    ],
)
def test_no_page_waits_for_ever_when_no_child_can_be_restarted(
    renderers: type[FakeRenderProcess],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    raised: type[Exception],
    message: str,
) -> None:
    """It is not the pages' fault, so none of them fails."""
    renderers.ends = frozenset({1})

    def nothing_left(*_: object) -> None:
        raise error

    async def use(images: PageImages) -> None:
        monkeypatch.setattr(page_images, "RenderProcess", nothing_left)
        assert "could not be rendered" in await failure_of(images, 0)
        for index in range(1, 4):
            with pytest.raises(raised, match=message):
                await images.take(index)

    using(5, 5, use)
    gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_child_that_cannot_be_started_leaves_no_pipe_open(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[int] = []
    pipe = os.pipe

    def noted() -> tuple[int, int]:
        ends = pipe()
        made.extend(ends)
        return ends

    def nothing_left(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, "no process left")

    monkeypatch.setattr(renderer.os, "pipe", noted)
    monkeypatch.setattr(renderer, "ChildProcess", nothing_left)
    with pytest.raises(OSError, match="no process left"):
        RenderProcess(tmp_path / "x.pdf", DRAWING)
    assert len(made) == 4
    for end in made:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)


def test_a_page_whose_child_aborts_for_lack_of_memory_exceeds_a_limit(
    renderers: type[FakeRenderProcess],
) -> None:
    renderers.ends, renderers.ran_out_of_memory = frozenset({1}), True

    async def use(images: PageImages) -> None:
        with pytest.raises(PdfError, match="it needed more memory than allowed") as failed:
            await images.take(0)
        assert failed.value.kind == "resource_limit"

    using(3, 3, use)


def test_what_drawing_takes_is_counted_of_all_children_together(renderers: type[FakeRenderProcess]) -> None:
    renderers.takes = 60.0

    async def run() -> list[str]:
        render = RenderOptions(limits=DrawingLimits(100.0, 120.0), children=2)
        async with SharedPageImages(Path("x.pdf"), range(1, 41), 40, render, NEVER) as images:
            return [await outcome(images, index) for index in range(40)]

    async def outcome(images: SharedPageImages, index: int) -> str:
        try:
            await images.take(index)
        except PdfError as error:
            return error.kind
        return "drawn"

    found = asyncio.run(asyncio.wait_for(run(), timeout=20))
    assert found.count("drawn") <= 4 and set(found) == {"drawn", "resource_limit"}
