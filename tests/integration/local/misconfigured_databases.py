"""How to make each misconfiguration of a database."""

from __future__ import annotations

import socket
from contextlib import suppress
from datetime import timedelta
from threading import Thread

import psycopg
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from queuemgr.base import database_problems
from queuemgr.base.scheduler_lock import SCHEDULER_LOCK
from tests.integration.local.misconfiguration import Make, Scene, variables
from tests.private_servers import POSTGRES

OWNER = f"sluice:{POSTGRES.password}"


def postgres(user: str = OWNER, name: str = "postgres", options: str = "") -> str:
    return f"postgres://{user}@127.0.0.1:{POSTGRES.port}/{name}{options}"


def as_superuser(*statements: str) -> None:
    with psycopg.connect(POSTGRES.url, autocommit=True) as session:
        for statement in statements:
            session.execute(statement)


def as_role(role: str, *statements: str, url: str = "", hba: str = "") -> Make:
    """Connect as a role of its own, which these statements make; `hba` is how the server lets it in."""

    def make(scene: Scene) -> None:
        rules = POSTGRES.directory / "pg_hba.conf"
        before = rules.read_text()
        if hba:
            rules.write_text(f"host all {role} 127.0.0.1/32 {hba}\n{before}")
            scene.undo.append(lambda: rules.write_text(before))
        as_superuser(f"CREATE ROLE {role} LOGIN PASSWORD 'right'", *statements, "SELECT pg_reload_conf()")
        scene.undo.append(lambda: as_superuser(f"DROP ROLE {role}"))
        scene.environment["DATABASE_URL"] = url or postgres(f"{role}:right")

    return make


def no_such_user(scene: Scene) -> None:
    """A server that asks users for a password does not say whether they exist."""
    as_role("nobody_known", hba="trust", url=postgres("nobody_known"))(scene)
    as_superuser("DROP ROLE nobody_known")
    scene.undo[-1] = lambda: None


def may_not_connect(scene: Scene) -> None:
    as_superuser("CREATE DATABASE guarded", "REVOKE CONNECT ON DATABASE guarded FROM PUBLIC")
    scene.undo.append(lambda: as_superuser("DROP DATABASE guarded"))
    as_role("uninvited", url=postgres("uninvited:right", "guarded"))(scene)


def no_database_file(scene: Scene) -> None:
    file = scene.directory / "notes.txt"
    file.write_text("no database\n" * 100)
    scene.environment["DATABASE_URL"] = f"sqlite:///{file}"


def migrated_file(scene: Scene) -> None:
    scene.environment["SLUICE_SLOTS"] = "1"
    scene.fixture("shell")(scene.directory, "migrate", "--skip-checks", "--verbosity", "0")


def root_certificate_missing(scene: Scene) -> None:
    """A server that is ready for TLS: the client then reads its root certificate."""

    def agree() -> None:
        with suppress(OSError):
            client, _ = server.accept()
            client.sendall(b"S")
            client.recv(1)
            client.close()

    server = socket.create_server(("127.0.0.1", 0))
    Thread(target=agree, daemon=True).start()
    scene.undo.append(server.close)
    address = f"127.0.0.1:{server.getsockname()[1]}"
    options = "sslmode=verify-full&sslrootcert=/nowhere/root.crt"
    scene.environment["DATABASE_URL"] = f"postgres://sluice:secret@{address}/name?{options}"


def lock_kept(scene: Scene) -> None:
    session = psycopg.connect(**connection.get_connection_params(), autocommit=True)
    session.execute("SET application_name = 'somebody'")
    session.execute("SELECT pg_advisory_lock(%s::bigint)", [SCHEDULER_LOCK])
    scene.patch.setattr(database_problems, "IDLE_SECONDS", 0)
    scene.undo.append(session.close)


def migration_missing(scene: Scene) -> None:
    recorder = MigrationRecorder(connection)
    (newest,) = MigrationLoader(connection).graph.leaf_nodes("pipeline")
    recorder.record_unapplied(*newest)
    scene.undo.append(lambda: recorder.record_applied(*newest))


def clock_ahead(scene: Scene) -> None:
    now = timezone.now
    scene.patch.setattr("queuemgr.base.database_problems.timezone.now", lambda: now() + timedelta(seconds=60))


def may_only_read(scene: Scene) -> None:
    """Of the tables that the tests have: `doctor` runs here, in the role's name."""
    as_superuser("CREATE ROLE reader LOGIN")
    name = connection.settings_dict["NAME"]
    with psycopg.connect(postgres(name=name), autocommit=True) as session:
        session.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    scene.undo.append(lambda: _drop("reader", name))
    _in_this_session(scene, "SET ROLE reader")


def _drop(role: str, database: str) -> None:
    connection.close()
    with psycopg.connect(postgres(name=database), autocommit=True) as session:
        session.execute(f"DROP OWNED BY {role}")
    as_superuser(f"DROP ROLE {role}")


def _in_this_session(scene: Scene, statement: str) -> None:
    scene.undo.append(connection.close)
    with connection.cursor() as cursor:
        cursor.execute(statement)


def session_setting(name: str, value: str) -> Make:
    """As if the role, the database or the server had it."""
    return lambda scene: _in_this_session(scene, f"SET {name} = {value}")


def migrated_by_newer_code(scene: Scene) -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_applied("queuemgr", "9999_future")
    scene.undo.append(lambda: recorder.record_unapplied("queuemgr", "9999_future"))


DATABASES: dict[str, Make] = {
    "DATABASE_URL that is no URL": variables(DATABASE_URL="postgres://sluice:secret@[host/name"),
    "DATABASE_URL with a password that is not quoted": variables(
        DATABASE_URL="postgres://sluice:12#secret@host/name"
    ),
    "DATABASE_URL of another product": variables(DATABASE_URL="mysql://sluice:secret@host/name"),
    "DATABASE_URL without a name": variables(DATABASE_URL="postgres://sluice:secret@host"),
    "a host that does not exist": variables(
        DATABASE_URL="postgres://sluice:secret@no-such-host.invalid/name"
    ),
    "a port where nothing listens": variables(DATABASE_URL="postgres://sluice:secret@127.0.0.1:1/name"),
    "a wrong password": as_role("locked", hba="scram-sha-256", url=postgres("locked:secret")),
    "no password": as_role("locked", hba="scram-sha-256", url=postgres("locked")),
    "a user that does not exist": no_such_user,
    "a database that does not exist": variables(DATABASE_URL=postgres(name="no_such_database")),
    "a host that pg_hba.conf does not let in": as_role("shut_out", hba="reject"),
    "a user who may not connect to the database": may_not_connect,
    "too many connections": as_role("one_too_many", "ALTER ROLE one_too_many CONNECTION LIMIT 0"),
    "TLS asked of a server without it": variables(DATABASE_URL=postgres(options="?sslmode=require")),
    "a root certificate that is not there": root_certificate_missing,
    "an option of DATABASE_URL that does not exist": variables(DATABASE_URL=postgres(options="?colour=blue")),
    "a pooler in transaction mode, not configured": lambda scene: scene.patch.setattr(
        database_problems, "_sessions_are_swapped", lambda: True
    ),
    "a session that keeps the scheduler lock": lock_kept,
    "a user who may only read": may_only_read,
    "a database that may only be read": session_setting("default_transaction_read_only", "on"),
    "statements that may take 5 ms": session_setting("statement_timeout", "'50ms'"),
    "locks that are waited for 1 ms": session_setting("lock_timeout", "'1ms'"),
    "transactions that may be quiet for 50 ms": session_setting(
        "idle_in_transaction_session_timeout", "'50ms'"
    ),
    "a SQLite file in no directory": variables(DATABASE_URL="sqlite:////nowhere/sluice.sqlite3"),
    "a file that is no database": no_database_file,
    "SQLite for a fleet": migrated_file,
    "migrations that were not applied": migration_missing,
    "a database that newer code has migrated": migrated_by_newer_code,
    "a clock that is off": clock_ahead,
}
