"""Exit 0 while the worker of this name on this host shows signs of life in the database.

`celery inspect ping` would load the whole application and ask every worker of the fleet through the
broker, each time, for each worker. A worker writes a sign of life every few seconds, and by these
admission knows whom to give work: this reads the one row.
"""

from __future__ import annotations

import os
import socket
import sys

import psycopg

QUERY = """
    SELECT 1 FROM queuemgr_worker
     WHERE name = %s AND draining_at IS NULL AND seen_at > clock_timestamp() - interval '40 seconds'
"""

name = f"{sys.argv[1]}@{socket.gethostname()}"
try:
    with psycopg.connect(os.environ["DATABASE_URL"], connect_timeout=5) as connection:
        alive = connection.execute(QUERY, [name]).fetchone()
except psycopg.Error as error:
    sys.exit(f"{name}: the database does not answer ({type(error).__name__})")
sys.exit(None if alive else f"{name}: no sign of life for 40 seconds")
