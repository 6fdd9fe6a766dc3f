"""Messages in files, as kombu's transport `filesystem` keeps them, for the processes of one machine.

Kombu's own writes a file in place: who reads it meanwhile gets a part of it, and a worker ends over that.
Here files appear whole, and what is no message all the same is removed: all that is there is a hint.

Whoever may write to the folders may put anything there. Only regular files of bounded size are read: no link
leads elsewhere, and no pipe is waited for.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import filesystem, virtual
from kombu.utils.encoding import bytes_to_str, str_to_bytes
from kombu.utils.json import dumps, loads

from queuemgr.worker.message_form import problem_of

logger = logging.getLogger(__name__)

MOST_BYTES = 64 * 2**20
"""Of a message: what a broker takes as well."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_Channel: Any = filesystem.Channel  # its stubs lack most of it


class Channel(_Channel):  # type: ignore[misc]  # see above
    """Files of messages, and for each exchange one with the queues that are bound to it."""

    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:
        name = f"{round(time.monotonic() * 1000)}_{uuid.uuid4()}.{queue}.msg"
        _write_whole(Path(self.data_folder_out) / name, payload)

    def _get(self, queue: str) -> Any:
        for name in self._waiting(queue):
            content, problem = self._take(name)
            if content is not None:
                message, problem = _parsed(content)
                if not problem:
                    return message
            if problem:
                logger.warning("removed a message of queue %s: %s", queue, problem)
        raise Empty

    def _waiting(self, queue: str) -> list[str]:
        """The files of this queue, the oldest first."""
        end = f"{queue}.msg"
        return [name for name in sorted(os.listdir(self.data_folder_in)) if name.partition(".")[2] == end]

    def _take(self, name: str) -> tuple[bytes | None, str]:
        """What is in a file, which is ours alone then, and gone; or why it is no message. Neither, where
        another process was faster."""
        path = Path(self.data_folder_in) / name
        taken = path.with_name(f".{uuid.uuid4()}.taken")
        try:
            os.rename(path, taken)
        except OSError:
            return None, ""
        content, problem = _read_regular(taken)
        self._put_away(taken, name)
        return content, problem

    def _put_away(self, taken: Path, name: str) -> None:
        try:
            if self.store_processed:
                os.replace(taken, Path(self.processed_folder) / name)
            else:
                taken.unlink()
        except OSError as error:  # such as a folder: under this name nobody looks at it again
            logger.warning("%s cannot be removed (%s)", taken, error.strerror)

    def get_table(self, exchange: str) -> list[Any]:
        """The queues that are bound to an exchange; none where its file is damaged: they bind again."""
        content, _ = _read_regular(self._exchange_file(exchange))
        try:
            return [filesystem.exchange_queue_t(*bound) for bound in loads(bytes_to_str(content or b"[]"))]
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
        self.control_folder.mkdir(exist_ok=True, mode=0o700)
        lock = os.open(self.control_folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with os.fdopen(lock, "r+b", buffering=0):
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class Transport(filesystem.Transport):
    """Kombu's, with our channel."""

    Channel: Any = Channel


def _parsed(content: bytes) -> tuple[Any, str]:
    """The message that these bytes are, or why they are none."""
    try:
        message = loads(bytes_to_str(content))
        return message, problem_of(message)
    except (ValueError, TypeError, RecursionError, ArithmeticError):
        return None, "it is no JSON"


def _read_regular(path: Path) -> tuple[bytes | None, str]:
    """What is in a regular file; or why it is not read, which is empty where there is none."""
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None, "it is no regular file"
            content = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"it cannot be read ({error.strerror})"
    return (content, "") if len(content) <= MOST_BYTES else (None, "it is too large")


def _write_whole(path: Path, content: Any) -> None:
    """Write a file that appears with all of its content, for its owner only."""
    part = path.with_name(f".{uuid.uuid4()}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(str_to_bytes(dumps(content)))
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
