"""Messages in files, as kombu's transport `filesystem` keeps them, for the processes of one machine.

Kombu's own writes a file in place: who reads it meanwhile gets a part of it, and a worker ends over that.
Here files appear whole, and what is no message all the same is removed: all that is there is a hint.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kombu.transport import filesystem, virtual
from kombu.utils.encoding import str_to_bytes
from kombu.utils.json import dumps

from queuemgr.worker.message_form import problem_of

logger = logging.getLogger(__name__)


_Channel: Any = filesystem.Channel  # its stubs lack most of it


class Channel(_Channel):  # type: ignore[misc]  # see above
    """Files of messages, and for each exchange one with the queues that are bound to it."""

    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:
        name = f"{round(time.monotonic() * 1000)}_{uuid.uuid4()}.{queue}.msg"
        _write_whole(Path(self.data_folder_out) / name, payload)

    def _get(self, queue: str) -> Any:
        while True:  # what is no message is gone by now
            try:
                message = super()._get(queue)
                problem = problem_of(message)
            except (ValueError, RecursionError):
                problem = "it is no JSON"
            if not problem:
                return message
            logger.warning("removed a message of queue %s: %s", queue, problem)

    def get_table(self, exchange: str) -> list[Any]:
        """The queues that are bound to an exchange; none where its file is damaged: they bind again."""
        try:
            return list(super().get_table(exchange))
        except (TypeError, ValueError, RecursionError):
            return []

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        bound = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
        with self._table_locked():
            table = self.get_table(exchange)
            if bound not in table:
                self._write_table(exchange, [bound, *table])

    def _delete(
        self, queue: str, exchange: str, routing_key: str, pattern: str, *args: Any, **kwargs: Any
    ) -> None:
        virtual.Channel._delete(self, queue, exchange, routing_key, pattern, *args, **kwargs)
        bound = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
        with self._table_locked():
            table = self.get_table(exchange)
            if bound in table:
                self._write_table(exchange, [each for each in table if each != bound])

    def _write_table(self, exchange: str, table: Sequence[Any]) -> None:
        _write_whole(self._exchange_file(exchange), table)

    @contextmanager
    def _table_locked(self) -> Iterator[None]:
        self.control_folder.mkdir(exist_ok=True)
        with (self.control_folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class Transport(filesystem.Transport):
    """Kombu's, with our channel."""

    Channel: Any = Channel


def _write_whole(path: Path, content: Any) -> None:
    """Write a file that appears with all of its content."""
    part = path.with_name(f".{uuid.uuid4()}.part")
    try:
        part.write_bytes(str_to_bytes(dumps(content)))
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
