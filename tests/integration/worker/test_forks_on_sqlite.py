"""A pool replaces a child while threads of its parent write to SQLite: the new one can write, too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fork_server import ForkServer

PROGRAM = """
import os, threading
from django.db import connection, transaction
from queuemgr.base import fork_gate
from queuemgr.base.db_connection import database
from queuemgr.lifecycle.redispatch_timer import RedispatchTimer
from queuemgr.worker.background_thread import repeat, start_vital

fork_gate.install(forks_often=True)
begun, written, seconds = threading.Event(), threading.Semaphore(0), 0.5

def write(number, wait=0):
    with transaction.atomic():
        connection.cursor().execute("INSERT INTO written VALUES (%s)", [number])
        begun.set()
        threading.Event().wait(wait)
    written.release()
    return 1000.0

def in_a_block(number):
    with database():
        write(number, seconds)

with database():
    connection.cursor().execute("CREATE TABLE written (number int)")
for number in range(3):
    START
begun.wait()
if not (child := os.fork()):
    connection.settings_dict["OPTIONS"]["timeout"] = 5
    write(9)
    os._exit(0)
for number in range(3):
    written.acquire()
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
with database(), connection.cursor() as cursor:
    print(code, sorted(n for n, in cursor.execute("SELECT number FROM written")), flush=True)
os._exit(0)
"""

STARTS = {
    "in a block": "threading.Thread(target=in_a_block, args=(number,)).start()",
    "in an act that is repeated": "repeat('writer', lambda number=number: write(number, seconds))",
    "in the thread that forks": "write(number)",
    "in a dispatch": (
        "RedispatchTimer(lambda number=number: write(number, seconds), start_vital).schedule(0.0)"
    ),
}
"""How a thread of a worker comes to use the database; its connection may stay open for its next turn."""


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_child_forked_while_a_thread_of_its_parent_writes_can_write(
    start: str, fork_server: ForkServer, tmp_path: Path
) -> None:
    environment = {**os.environ, "SLUICE_DATA_DIR": str(tmp_path), "DATABASE_URL": ""}
    program = PROGRAM.replace("START", start)
    out, _ = fork_server.start_piped(["-c", program], environment).communicate(60)
    assert out.decode().split("\n")[-2:] == ["0 [0, 1, 2, 9]", ""]
