"""Decompress gzip and deflate in small pieces, so that no small response can fill the memory."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator

from queuemgr import StepFailed

PIECE = 64 * 1024
"""Bytes: the most that is decompressed at once."""

MAX_LAYERS = 3

_EITHER_HEADER = 32 + zlib.MAX_WBITS


class Decompressor:
    """Takes the bytes of a body as they arrive and returns the decoded ones.

    Raises StepFailed("bad_answer") for an unsupported encoding and for damaged data.
    """

    def __init__(self, content_encoding: str) -> None:
        names = [name.strip().lower() for name in content_encoding.split(",")]
        coded = [name for name in names if name not in ("", "identity")]
        if len(coded) > MAX_LAYERS or not {"gzip", "x-gzip", "deflate"}.issuperset(coded):
            raise StepFailed("bad_answer", f"unsupported content encoding: {content_encoding[:80]!r}")
        self._layers = [_Layer() for _ in coded]

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decoded bytes, in pieces of at most PIECE unless nothing was compressed. Some are empty, where
        a layer decoded to nothing: so each takes a bounded time, however much is packed in however many."""
        pieces: Iterator[bytes] = iter((data,))
        for layer in self._layers:
            pieces = layer.through(pieces)
        return pieces

    async def decoded(self, data: bytes) -> AsyncIterator[bytes]:
        """As `feed`, without the empty pieces, and each decompressed in a thread: event loops only read and
        write."""
        pieces = self.feed(data)
        while (piece := await self._in_thread(pieces)) is not None:
            if piece:
                yield piece

    async def _in_thread(self, pieces: Iterator[bytes]) -> bytes | None:
        if not self._layers:
            return next(pieces, None)
        return await asyncio.to_thread(next, pieces, None)

    def finish(self) -> None:
        """Raise StepFailed("network") if the body ended inside a compressed stream."""
        if any(layer.open for layer in self._layers):
            raise StepFailed("network", "the response was cut off inside its compressed body")


class _Layer:
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=_EITHER_HEADER)
        self.open = False

    def through(self, packed: Iterator[bytes]) -> Iterator[bytes]:
        for data in packed:
            yield from self._feed(data)

    def _feed(self, data: bytes) -> Iterator[bytes]:
        # After a full piece zlib may hold more although all input is consumed.
        more = bool(data)
        while more:
            piece = self._step(data)
            data = self._stream.unused_data or self._stream.unconsumed_tail
            more = bool(data) or (len(piece) == PIECE and self.open)
            yield piece

    def _step(self, data: bytes) -> bytes:
        if self._stream.eof:
            self._stream = zlib.decompressobj(wbits=_EITHER_HEADER)
        try:
            piece = self._stream.decompress(data, PIECE)
        except zlib.error as error:
            raise StepFailed("bad_answer", f"the compressed body is damaged: {error}") from error
        self.open = not self._stream.eof
        return piece
