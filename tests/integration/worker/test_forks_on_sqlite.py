"""A pool replaces a child while threads of its parent write to SQLite: the new one can write, too."""

from __future__ import annotations

import os
from pathlib import Path

from tests.fork_server import ForkServer

PROGRAM = """
import os, threading
from django.db import connection, transaction
from queuemgr.base import fork_gate
from queuemgr.base.db_connection import database

fork_gate.install()
begun, seconds = threading.Event(), 0.5

def write(number, wait=0):
    with database(), transaction.atomic():
        connection.cursor().execute("INSERT INTO written VALUES (%s)", [number])
        begun.set()
        threading.Event().wait(wait)

with database():
    connection.cursor().execute("CREATE TABLE written (number int)")
threads = [threading.Thread(target=write, args=(number, seconds)) for number in range(3)]
for thread in threads:
    thread.start()
begun.wait()
if not (child := os.fork()):
    connection.settings_dict["OPTIONS"]["timeout"] = 5
    write(9)
    os._exit(0)
for thread in threads:
    thread.join()
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
with database(), connection.cursor() as cursor:
    print(code, sorted(n for n, in cursor.execute("SELECT number FROM written")))
"""


def test_a_child_forked_while_a_thread_of_its_parent_writes_can_write(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    environment = {**os.environ, "SLUICE_DATA_DIR": str(tmp_path), "DATABASE_URL": ""}
    out, _ = fork_server.start_piped(["-c", PROGRAM], environment).communicate(60)
    assert out.decode().split("\n")[-2:] == ["0 [0, 1, 2, 9]", ""]
