"""The body of a response, unpacked, and never more of it in memory than was allowed."""

from __future__ import annotations

import httpx

from pipeline.steps.http.decompress import Decompressor
from queuemgr import StepFailed

_ABOUT_THE_PACKED_BODY = ("content-encoding", "content-length", "transfer-encoding")


async def read_body(response: httpx.Response, most: int, name: str) -> bytes:
    """The whole body of an open response, of at most so many bytes once it is unpacked, however small it
    arrived. `name`: of who sent it.

    Raises StepFailed("bad_answer") for more, and for what cannot be unpacked.
    """
    decompressor, body = Decompressor(response.headers.get("content-encoding", "")), bytearray()
    async for raw in response.aiter_raw():
        async for piece in decompressor.decoded(raw):
            body += piece
            if len(body) > most:
                raise StepFailed("bad_answer", f"{name} sent more than {most} bytes")
    decompressor.finish()
    return bytes(body)


async def read_whole(response: httpx.Response, most: int, name: str) -> httpx.Response:
    """The response with its body read as by `read_body`. httpx would unpack it at once, whatever its size."""
    body = await read_body(response, most, name)
    headers = response.headers.multi_items()
    kept = [(key, value) for key, value in headers if key not in _ABOUT_THE_PACKED_BODY]
    return httpx.Response(response.status_code, headers=kept, content=body)
