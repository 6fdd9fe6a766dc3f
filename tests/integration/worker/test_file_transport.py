"""Messages in files: whole, once each, and none that ends a worker."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection

from queuemgr.worker import file_transport
from queuemgr.worker.file_transport import Channel, Transport

QUEUE = "default.normal"
READERS, WRITERS, EACH = 2, 3, 60


@pytest.fixture
def make_channel(tmp_path: Path) -> Callable[[], Channel]:
    for name in ("queues", "control"):
        (tmp_path / name).mkdir()
    options = {
        "data_folder_in": str(tmp_path / "queues"), "data_folder_out": str(tmp_path / "queues"),
        "control_folder": str(tmp_path / "control"),
    }  # fmt: skip
    connection = Connection("filesystem://localhost//", transport=Transport, transport_options=options)
    return lambda: connection.channel()


def message(number: int, size: int = 10) -> dict[str, Any]:
    info = {"exchange": "", "routing_key": QUEUE}
    properties = {"delivery_tag": str(number), "delivery_info": info, "body_encoding": "utf-8"}
    return {"body": "x" * size, "headers": {}, "properties": properties}


def rest(channel: Channel) -> list[str]:
    """The numbers of the messages that are left."""
    found = []
    try:
        while True:
            found.append(channel._get(QUEUE)["properties"]["delivery_tag"])
    except Empty:
        return found


def test_messages_are_read_whole_and_once_while_they_are_written(make_channel: Callable[[], Channel]) -> None:
    found, written, errors = list[str](), threading.Event(), list[BaseException]()

    def write(first: int) -> None:
        channel = make_channel()
        for number in range(first, first + EACH):
            channel._put(QUEUE, message(number, 300_000))

    def read() -> None:
        channel = make_channel()
        try:
            while not written.is_set():
                found.extend(rest(channel))
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(READERS)]
    writers = [threading.Thread(target=write, args=(n * EACH,)) for n in range(WRITERS)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    written.set()
    for thread in readers:
        thread.join()
    found.extend(rest(make_channel()))
    assert errors == []
    assert sorted(map(int, found)) == list(range(WRITERS * EACH))


WHOLE = json.dumps(message(1)).encode()
NO_MESSAGE = {
    "nothing": b"",
    "half of one": WHOLE[: len(WHOLE) // 2],
    "bytes": b"\xff\xfe\x00",
    "a list": b"[1, 2]",
    "a number": b"1",
    "no properties": b'{"body": ""}',
    "properties of the wrong type": b'{"body": "", "properties": [], "headers": {}}',
    "no delivery tag": b'{"body": "", "properties": {"delivery_info": {}}, "headers": {}}',
    "deeply nested": b"[" * 100_000,
}


@pytest.mark.parametrize("content", NO_MESSAGE.values(), ids=NO_MESSAGE)
def test_what_is_no_message_is_removed_and_those_behind_it_are_read(
    content: bytes, make_channel: Callable[[], Channel], tmp_path: Path
) -> None:
    (tmp_path / "queues" / f"0_first.{QUEUE}.msg").write_bytes(content)
    channel = make_channel()
    channel._put(QUEUE, message(7))
    assert rest(channel) == ["7"]
    assert list((tmp_path / "queues").iterdir()) == []


def test_queues_that_bind_at_the_same_time_are_all_bound(make_channel: Callable[[], Channel]) -> None:
    def bind(number: int) -> None:
        channel = make_channel()
        for each in range(10):
            channel._queue_bind("celeryev", "", "", f"q{number}.{each}")

    threads = [threading.Thread(target=bind, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {f"q{number}.{each}" for number in range(4) for each in range(10)}
    assert {each.queue for each in make_channel().get_table("celeryev")} == expected


@pytest.mark.parametrize("content", [b"", b"[[", b"1", b'[["a"]]', b"\xff"])
def test_a_damaged_list_of_queues_is_written_anew(
    content: bytes, make_channel: Callable[[], Channel], tmp_path: Path
) -> None:
    (tmp_path / "control" / "celeryev.exchange").write_bytes(content)
    channel = make_channel()
    channel._queue_bind("celeryev", "", "", "q")
    assert [each.queue for each in channel.get_table("celeryev")] == ["q"]


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(file_transport.MOST_BYTES + 1)


def socket_at(path: Path) -> None:
    bound = path.with_name("s")  # its own name may be too long for a socket
    with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):
        made.bind("s")
    bound.rename(path)


NO_FILES: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "socket": socket_at,
    "endless device": link_to("/dev/zero"),
    "link to a file": link_to(__file__),
    "link to a message": link_to("../message"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to nothing": link_to("nothing"),
    "too large": sparse,
}


def in_time(call: Callable[[], Any]) -> Any:
    """What it returns; a call that waits for ever fails."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(30)


@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_file_is_never_read_nor_waited_for_and_those_behind_it_are_read(
    make: Callable[[Path], None], make_channel: Callable[[], Channel], tmp_path: Path
) -> None:
    (tmp_path / "message").write_text(json.dumps(message(1)))
    make(tmp_path / "queues" / f"0_first.{QUEUE}.msg")
    make(tmp_path / "control" / "celeryev.exchange")
    channel = make_channel()
    channel._put(QUEUE, message(7))
    assert in_time(lambda: rest(channel)) == ["7"]
    assert in_time(lambda: channel.get_table("celeryev")) == []
    assert (tmp_path / "message").exists()
    assert not [each for each in (tmp_path / "queues").iterdir() if each.name.endswith(".msg")]


def test_messages_are_for_their_owner_only(make_channel: Callable[[], Channel], tmp_path: Path) -> None:
    channel = make_channel()
    channel._put(QUEUE, message(1))
    channel._queue_bind("celeryev", "", "", "q")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 3
    assert {path.stat().st_mode & 0o077 for path in files} == {0}


@pytest.mark.parametrize("queue", ["../x", "/x", "/../../x", "x" * 300, "a/b", "\x00"])
def test_no_name_of_a_queue_leads_out_of_the_folder(
    queue: str, make_channel: Callable[[], Channel], tmp_path: Path
) -> None:
    with suppress(OSError, ValueError):
        make_channel()._put(queue, message(1))
    assert [path.parent.name for path in tmp_path.rglob("*") if path.is_file()] in ([], ["queues"])
