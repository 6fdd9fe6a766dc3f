"""`python -m bench.vision_stub SECONDS`: a vision endpoint that answers every page after a fixed time.

Its own process, so that it takes nothing from the one that is measured. It prints its port, and ends when
its standard input does.
"""

from __future__ import annotations

import asyncio
import json
import sys

from bench import command_line

BODY = json.dumps(
    {"model": "stub", "choices": [{"finish_reason": "stop", "message": {"content": "Water rose. " * 4}}]}
).encode()
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
) + BODY


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, latency: float) -> None:
    """Requests of one connection, one after another, until it is closed."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            await asyncio.sleep(latency)
            writer.write(ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main(latency: float) -> None:
    server = await asyncio.start_server(
        lambda reader, writer: answer(reader, writer, latency), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    parser = command_line.parser("bench.vision_stub", __doc__, "2")
    parser.add_argument("seconds", type=float, help="how long each answer takes")
    asyncio.run(main(parser.parse_args().seconds))
