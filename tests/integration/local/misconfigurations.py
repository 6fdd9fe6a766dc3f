"""How to make each misconfiguration of docs/doctor.md."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from redis import Redis

from pipeline.config import pipeline_settings
from queuemgr.base import database_problems
from queuemgr.base.config import WebhookSettings
from queuemgr.base.scheduler_lock import SCHEDULER_LOCK, database_now
from queuemgr.flows import flow
from queuemgr.flows.flow import all_queues
from queuemgr.lifecycle import anomalies, unknown_steps
from queuemgr.lifecycle.dispatch import dispatch
from queuemgr.lifecycle.enqueue import enqueue
from queuemgr.local.checks import fleet
from queuemgr.local.private_servers import RedisServer, wait_for_port
from queuemgr.models import CallbackFailure, Lease, PeriodicJob, Schedule, ScheduledRun, Webhook, Worker
from queuemgr.operations import workers
from queuemgr.operations.controls import Actor
from tests.private_servers import POSTGRES, REDIS


@dataclass
class Scene:
    """What a misconfiguration is made with. With an `environment`, `doctor` runs in a process of its own,
    which starts with nothing but that and a private data directory."""

    directory: Path
    patch: pytest.MonkeyPatch
    fixture: Callable[[str], Any]
    environment: dict[str, str] = field(default_factory=dict)
    undo: list[Callable[[], object]] = field(default_factory=list)


Make = Callable[[Scene], object]


def variables(**values: str) -> Make:
    return lambda scene: scene.environment.update(values)


def set_here(**values: str) -> Make:
    return lambda scene: [scene.patch.setenv(*pair) for pair in values.items()]


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


def not_writable(scene: Scene) -> None:
    scene.patch.setattr("queuemgr.local.checks.installation.os.access", lambda *args: False)


def nearly_full(scene: Scene) -> None:
    usage = namedtuple("usage", "free")
    scene.patch.setattr(shutil, "disk_usage", lambda folder: usage(100 << 20))


def no_database_file(scene: Scene) -> None:
    file = scene.directory / "notes.txt"
    file.write_text("no database\n" * 100)
    scene.environment["DATABASE_URL"] = f"sqlite:///{file}"


def migrated_file(scene: Scene) -> None:
    scene.environment["SLUICE_SLOTS"] = "1"
    scene.fixture("shell")(scene.directory, "migrate", "--verbosity", "0")


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


def full_broker_drops(scene: Scene) -> None:
    broker = Redis.from_url(REDIS.url)
    broker.config_set("maxmemory-policy", "allkeys-lru")
    scene.undo += [lambda: broker.config_set("maxmemory-policy", "noeviction"), broker.close]


def worker_elsewhere(scene: Scene) -> None:
    row = scene.fixture("make_worker")()
    Worker.objects.filter(pk=row.pk).update(broker="redis://elsewhere:6379/0")


def with_worker(scene: Scene, **given: Any) -> None:
    scene.fixture("make_worker")(**given)


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


def own_broker(make: Callable[[Redis], object], user: str = "") -> Make:
    """A Redis of its own with a password, made so; `user` replaces what its URL says of the user."""

    def made_so(scene: Scene) -> None:
        server = RedisServer(scene.directory / "broker")
        process = subprocess.Popen(server.command, stdout=subprocess.DEVNULL)
        scene.undo.append(lambda: (process.kill(), process.wait()))
        wait_for_port(server.port)
        with Redis.from_url(server.url) as client:
            make(client)
        parts = urlsplit(server.url)
        who = user if user else f"{parts.username or ''}:{parts.password}@"
        scene.environment["BROKER_URL"] = f"redis://{who.replace('-', '')}127.0.0.1:{server.port}/0"

    return made_so


def broker_url(change: Callable[[str], str]) -> Make:
    def make(scene: Scene) -> None:
        own_broker(lambda client: None)(scene)
        scene.environment["BROKER_URL"] = change(scene.environment["BROKER_URL"])

    return make


def may_not_write(client: Redis) -> None:
    client.execute_command("ACL", "SETUSER", "limited", "on", ">secret", "+@all", "-@write", "~*", "&*")


def no_worker_for_wrap(scene: Scene) -> None:
    with_worker(scene, queues=[name for name in all_queues() if not name.startswith("wrap")])


def work_for_no_worker(scene: Scene) -> None:
    with_worker(scene, queues=["prep.high"])
    scene.fixture("probes")(3)


def work_of_another_release(scene: Scene) -> None:
    with_worker(scene)
    scene.patch.setattr(flow, "_flows", dict(flow._flows))
    flow.register_flow(replace(flow.get_flow("probe"), name="of-another-release"))
    scene.fixture("sent")
    enqueue("of-another-release", "p0")
    del flow._flows["of-another-release"]
    for lease in Lease.objects.all():
        unknown_steps.put_back(lease.pk)


def only_worker_drained(scene: Scene) -> None:
    with_worker(scene)
    workers.drain("w@test", Actor("ann", "command"))
    scene.fixture("probes")(2)


def no_tick(scene: Scene) -> None:
    with_worker(scene)
    PeriodicJob.objects.create(name="tick", ran_at=database_now() - timedelta(hours=1))


def no_prune(scene: Scene) -> None:
    with_worker(scene)
    PeriodicJob.objects.create(name="tick", ran_at=database_now())
    PeriodicJob.objects.create(name="prune", ran_at=database_now() - timedelta(days=1))


def endless_backfill(scene: Scene) -> None:
    with_worker(scene)
    began = database_now() - timedelta(minutes=10)
    PeriodicJob.objects.create(name="tick", ran_at=database_now())
    PeriodicJob.objects.create(name="seed", ran_at=began, running_since=began)


def a_schedule(**fields: Any) -> Schedule:
    now = database_now()
    return Schedule.objects.create(
        name="nightly", flow="probe", timing="every 5m from start", planned_for="every 5m from start",
        created_at=now, anchor_at=now, decided_at=now, **fields,
    )  # fmt: skip


def schedule_late(scene: Scene) -> None:
    a_schedule(next_due_at=database_now() - timedelta(hours=1))


def schedule_skipping(scene: Scene) -> None:
    row, now = a_schedule(next_due_at=database_now() + timedelta(hours=1)), database_now()
    for minutes in (5, 10, 15):
        ScheduledRun.objects.create(
            schedule=row, due_at=now - timedelta(minutes=minutes), decided_at=now, outcome="skipped",
            reason="the run of 2026-11-28 06:00:00 UTC had not ended",
        )  # fmt: skip


def a_webhook(**fields: Any) -> Callable[[Scene], object]:
    made = {"name": "ops", "url": "https://hooks.example/", **fields}
    return lambda scene: Webhook.objects.create(created_at=database_now(), **made)


def webhook_paused(scene: Scene) -> None:
    why = "10 deliveries in a row failed"
    a_webhook(paused_at=database_now(), paused_by="webhooks", pause_reason=why)(scene)


def lease_expired(scene: Scene) -> None:
    worker = scene.fixture("played")(slots=1)
    scene.fixture("probes")(1)
    worker.begin_all()
    Lease.objects.update(expires_at=database_now() - timedelta(minutes=5))


def lease_not_begun(scene: Scene) -> None:
    scene.fixture("played")(slots=1)
    scene.fixture("probes")(1)
    dispatch()
    Lease.objects.update(leased_at=database_now() - timedelta(seconds=40))


def leases_not_begun_lately(scene: Scene) -> None:
    with_worker(scene)
    anomalies.count(anomalies.LEASE_EXPIRED_UNSTARTED, 7, database_now())


def storage_away(scene: Scene) -> None:
    def refuse(name: str, content: object) -> str:
        raise ConnectionRefusedError(111, "Connection refused")

    scene.patch.setattr("pipeline.storage.default_storage.save", refuse)


def not_confined(scene: Scene) -> None:
    scene.patch.setattr(
        "pipeline.sandbox_required._lacking", lambda: ("Landlock (Function not implemented)",)
    )


def not_confined_as_required(scene: Scene) -> None:
    not_confined(scene)
    required = pipeline_settings().model_copy(update={"require_sandbox": True})
    scene.patch.setattr("pipeline.doctor.pipeline_settings", lambda: required)


def callback_failed(scene: Scene) -> None:
    now = database_now()
    CallbackFailure.objects.create(
        flow="press", callback="backfill", problem="raised KeyError: 'host'", since=now, last_at=now
    )


def callback_hung(scene: Scene) -> None:
    now = database_now()
    CallbackFailure.objects.create(
        flow="press", callback="cleanup", problem="still ran after 60 s", since=now, last_at=now, hung_at=now
    )


MISCONFIGURATIONS: dict[str, Make] = {
    "a mistyped setting": set_here(SLUICE_MAX_WORKER="3"),
    "a setting out of its range": variables(SLUICE_MAX_WORKERS="many"),
    "a data directory that cannot be made": variables(SLUICE_DATA_DIR="/proc/nowhere"),
    "a data directory that may not be written": not_writable,
    "a disk that is nearly full": nearly_full,
    "a model's address without its name": variables(SLUICE_LLM_BASE_URL="http://127.0.0.1:1/v1"),
    "a key for OCR without its address": variables(SLUICE_OCR_API_KEY="secret-key"),
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
    "no broker named": lambda scene: scene.patch.delenv("BROKER_URL"),
    "a broker that does not answer": variables(BROKER_URL="redis://:secret@127.0.0.1:1/0"),
    "a broker of a kind that does not exist": variables(BROKER_URL="carrier-pigeon://:secret@x"),
    "a broker whose password is wrong": own_broker(lambda client: None, user=":secret@"),
    "a broker that wants a password": own_broker(lambda client: None, user="-"),
    "a database number the broker has not": broker_url(lambda url: f"{url[:-1]}99"),
    "TLS asked of a broker without it": broker_url(lambda url: url.replace("redis:", "rediss:")),
    "a port of PostgreSQL as the broker's": lambda scene: scene.environment.update(
        BROKER_URL=f"redis://127.0.0.1:{POSTGRES.port}/0"
    ),
    "a host of the broker that does not exist": variables(BROKER_URL="redis://no-such-host.invalid:6379/0"),
    "a broker that is a read-only replica": own_broker(lambda client: client.slaveof("127.0.0.1", 1)),
    "a broker that is full": own_broker(lambda client: client.config_set("maxmemory", 1)),
    "a user of the broker who may not write": own_broker(may_not_write, user="limited:secret@"),
    "a broker within one process": variables(BROKER_URL="memory://"),
    "a broker that drops messages when it is full": full_broker_drops,
    "work and no worker": lambda scene: scene.fixture("probes")(2),
    "no worker, and nothing to do": lambda scene: None,
    "work in a queue without a worker": work_for_no_worker,
    "work whose only worker is drained": only_worker_drained,
    "work of a task that no worker has": work_of_another_release,
    "a queue without a worker, and nothing to do": no_worker_for_wrap,
    "a worker of another broker": worker_elsewhere,
    "no beat and no periodic jobs": no_tick,
    "a periodic job that does not run, beside a tick that does": no_prune,
    "a periodic job that does not end": endless_backfill,
    "a schedule that nobody looks at": schedule_late,
    "a schedule whose runs are all left out": schedule_skipping,
    "webhooks in a phase that there is not": lambda scene: scene.patch.setattr(
        fleet, "webhook_settings", lambda: WebhookSettings(webhook_phase="wrapp")
    ),
    "a webhook that was paused": webhook_paused,
    "a webhook whose deliveries fail": a_webhook(failed_in_row=3),
    "leases that nobody ends": lease_expired,
    "a lease that no worker begins": lease_not_begun,
    "leases that no worker began lately": leases_not_begun_lately,
    "a file storage that does not answer": storage_away,
    "a kernel that cannot confine it": not_confined,
    "a kernel that cannot confine it, where it must": not_confined_as_required,
    "a callback of a flow that fails": callback_failed,
    "a callback of a flow that does not end": callback_hung,
}


@contextmanager
def made(name: str, scene: Scene) -> Iterator[Scene]:
    """The misconfiguration of this name, until the block ends."""
    try:
        MISCONFIGURATIONS[name](scene)
        yield scene
    finally:
        for undo in reversed(scene.undo):
            undo()
