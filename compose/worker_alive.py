"""Exit 0 while the worker of this name on this host has a recent heartbeat in the database.

`celery inspect ping` would load the whole application and ask every worker of the fleet through the
broker, for each worker and each check. This reads the one row that the worker's heartbeat updates every
few seconds, and by which the scheduler knows which workers can take work.
"""

from __future__ import annotations

import os
import socket
import sys

import psycopg

QUERY = """
    SELECT 1 FROM queuemgr_worker
     WHERE name = %s AND draining_at IS NULL
       AND abs(extract(epoch FROM clock_timestamp() - seen_at)) < 40
"""

name = f"{sys.argv[1]}@{socket.gethostname()}"
try:
    with psycopg.connect(os.environ["DATABASE_URL"], connect_timeout=5) as connection:
        alive = connection.execute(QUERY, [name]).fetchone()
except psycopg.Error as error:
    sys.exit(f"{name}: the database does not answer ({type(error).__name__})")
sys.exit(None if alive else f"{name}: no heartbeat for 40 seconds")
