"""`manage.py up`: run the whole system on this machine."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseError
from django.db.models import F, Sum

from pipeline import intake
from pipeline.config import PipelineSettings
from pipeline.models import FLOW, Document
from pipeline.steps.fetch.local_file import files_in
from pipeline.steps.identify import identify
from queuemgr import BadInput, ConfigurationError, Enqueued, QueueFull, SluiceError, atomically, enqueue_many
from queuemgr.extend.cli import (
    add_settings,
    apply_settings,
    audited_enqueue,
    by_command,
    first_superuser,
    has_password,
    port,
    positive,
    show,
    table,
)
from queuemgr.extend.fleet import (
    COULD_NOT_RUN,
    LEFT,
    Drained,
    FleetSpec,
    Program,
    QueueSettings,
    celery,
    database_now,
    drain,
    environment_of,
    free_port,
    phase_settings_group,
    print_summary,
    running,
    wait_for_port,
    why_away,
)
from queuemgr.extend.models import Attempt, Execution
from queuemgr.extend.secrets import secret_in
from queuemgr.extend.settings import set_default

GRACE_SECONDS = 2
"""Seconds for running steps after Ctrl-C; they resume at the next start."""

SHOWN = 40
ADMIN = "admin"
ROWS_PER_TRANSACTION = 500


class Command(BaseCommand):
    help = (
        "Run everything on this machine: broker, workers, beat, admin and Flower. Enqueue the documents, "
        "show their progress, then keep serving. Ctrl-C stops everything; the next start continues. "
        "Exit codes with --drain: 0 all done, 2 some failed, 3 could not run, 4 stopped with work left."
    )

    requires_system_checks = ()  # Django's checks import every page, for seconds in which nothing is said

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("documents", nargs="*", help="PDFs, folders of PDFs, arXiv ids, DOIs, URLs")
        parser.add_argument("--drain", action="store_true", help="exit when all work is done or failed")
        parser.add_argument("--workers", type=positive, default=8, help="slots (default 8)")
        parser.add_argument("--pool", choices=("threads", "prefork"), default="threads")
        parser.add_argument("--port", type=port, default=0, help="port of the admin (default: a free one)")
        add_settings(parser, phase_settings_group())
        add_settings(parser, QueueSettings, daily_budget="--budget")
        add_settings(parser, PipelineSettings)

    def handle(self, *args: Any, **options: Any) -> None:
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, signal.default_int_handler)
        try:
            code = self._up(options)
        except SluiceError as error:
            raise _could_not_run(str(error)) from None
        except DatabaseError as error:
            raise _could_not_run(f"the database: {why_away(error)}") from None
        except KeyboardInterrupt:
            self.stdout.write("\nstopped; the next start continues")
            code = 0 if not options["drain"] else 130
        if code:
            sys.exit(code)

    def _up(self, options: dict[str, Any]) -> int:
        set_default(QueueSettings, "shutdown_grace", GRACE_SECONDS)
        forced = apply_settings(options)
        items = list(_items(options["documents"]))
        self._say("preparing the database")
        call_command("migrate", verbosity=0)
        login = _login()
        flower_login = Login("flower", _secret_in("flower-password"))
        flower = _flower(flower_login)
        web = _web(options["port"], flower.port)
        wanted = FleetSpec(options["workers"], options["pool"])
        with running(wanted, also=[web.program, flower.program], forced=forced, say=self._say) as fleet:
            began = database_now()
            wait_for_port(web.port)
            wait_for_port(flower.port)
            self._print_addresses(f"{web.port}/admin/  {login}", f"{flower.port}/  {flower_login}")
            self._print_intake(_enqueue(items))
            drained = _drain_all(self.stdout, fleet.check)
            show(self.stdout, _results())
            print_summary(drained, began, self.stdout)
            if options["drain"]:
                return drained.exit_code
            self._print_addresses(f"{web.port}/admin/  {login}", f"{flower.port}/  {flower_login}")
            self.stdout.write(f"logs in {fleet.logs}; Ctrl-C stops everything")
            self.stdout.flush()
            while True:
                fleet.check()
                time.sleep(1)

    def _say(self, line: str) -> None:
        """What is under way: nobody is to look at a silent terminal."""
        self.stdout.write(line)
        self.stdout.flush()

    def _print_addresses(self, admin: str, flower: str) -> None:
        self.stdout.write(f"admin   http://127.0.0.1:{admin}")
        self.stdout.write(f"Flower  http://127.0.0.1:{flower}")
        self.stdout.flush()

    def _print_intake(self, taken: _Intake) -> None:
        enqueued = taken.enqueued
        if enqueued.new or enqueued.already:
            self.stdout.write(f"enqueued: {enqueued.new} new, {enqueued.already} already known")
        if taken.full:
            self.stdout.write(f"{taken.full}; the others are held and enqueued as it drains")
        self.stdout.flush()


class _Intake(NamedTuple):
    """What was enqueued, and the full queue that refused the rest: it is held for later backfills."""

    enqueued: Enqueued
    full: QueueFull | None = None


def _enqueue(items: list[str]) -> _Intake:
    """Register and enqueue documents in one transaction, a few hundred at a time. Otherwise the periodic
    backfill could enqueue registered ones first, and new documents would count as known. What a full
    queue refuses is registered only."""
    enqueued = Enqueued()
    try:
        with audited_enqueue(FLOW, by_command()) as counted:
            for start in range(0, len(items), ROWS_PER_TRANSACTION):
                some = list(map(intake.parse_item, items[start : start + ROWS_PER_TRANSACTION]))
                enqueued += counted(atomically(partial(enqueue_many, FLOW, some)))
    except QueueFull as full:
        intake.store_items(list(map(intake.parse_item, items)))
        return _Intake(enqueued + Enqueued(full.new, full.already), full)
    return _Intake(enqueued)


def _drain_all(out: Any, check: Callable[[], None]) -> Drained:
    """Drain, and again as long as documents are held that a full queue refused."""
    while True:
        drained = drain(out, check=check)
        if drained.exit_code == LEFT or not Document.objects.not_enqueued().exists():
            return drained
        with suppress(QueueFull):  # as many as it accepts
            if not intake.backfill(ROWS_PER_TRANSACTION):
                return drained


def _could_not_run(reason: str) -> CommandError:
    return CommandError(f"could not run: {reason}", returncode=COULD_NOT_RUN)


def _items(documents: list[str]) -> Iterator[str]:
    """The documents, with each folder replaced by the PDFs directly in it.

    Raises `BadInput` for what cannot be parsed, and for a missing file.
    """
    for document in documents:
        folder = Path(document)
        if folder.is_dir():
            yield from _pdfs_in(folder)
            continue
        found = identify(document)
        if found.kind == "file" and not Path(found.value).is_file():
            raise BadInput(f"there is no file or folder {document}")
        yield document


def _pdfs_in(folder: Path) -> list[str]:
    found = sorted(
        str(file.path)
        for file in files_in(folder, below=False)
        if file.path.suffix.lower() == ".pdf" and not file.refusal
    )
    if not found:
        raise BadInput(f"folder {folder} contains no .pdf file")
    return found


class Login(NamedTuple):
    """A name and a password."""

    name: str
    password: str

    def __str__(self) -> str:
        return f"login {self.name} / {self.password}"


class _WebProgram:
    """A web program and its port."""

    def __init__(self, program: Program, port: int) -> None:
        self.program, self.port = program, port


def _web(port: int, flower: int) -> _WebProgram:
    port = _free(port) if port else free_port()
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "django", "serve", "--port", str(port)]
    linked = {"SLUICE_FLOWER_URL": settings.SLUICE_FLOWER_URL or f"http://127.0.0.1:{flower}/"}
    environment = {**environment_of(["web"]), **linked}
    return _WebProgram(Program("web", command, order=60, environment=environment), port)


def _free(port: int) -> int:
    """The port, if this process can listen on it."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"--port {port} cannot be used: {error}") from None
    return port


def _flower(login: Login) -> _WebProgram:
    """Flower with a login of its own; read-only unless FLOWER_READ_ONLY says otherwise."""
    port = free_port()
    command = [*celery(), "flower", "--address=127.0.0.1", f"--port={port}", "--logging=warning"]
    environment = {
        **environment_of(["flower"]),
        "FLOWER_BASIC_AUTH": ":".join(login),
        "FLOWER_READ_ONLY": os.environ.get("FLOWER_READ_ONLY", "true"),
    }
    return _WebProgram(Program("flower", command, order=70, environment=environment), port)


def _login() -> Login:
    """The first superuser, made once. A password that was changed since stays as it is, and is not known."""
    password = _secret_in("admin-password")
    first_superuser(ADMIN, password, by_command())
    return Login(ADMIN, password if has_password(ADMIN, password) else "the password you set")


def _secret_in(name: str) -> str:
    """A password in a file of the data directory, made once."""
    file = Path(settings.SLUICE_DATA_DIR) / name
    return secret_in(file, partial(secrets.token_urlsafe, 9)).get_secret_value()


def _results() -> Any:
    """A table row per document: pages, references, requests, seconds of work, and its report."""
    documents = list(Document.objects.order_by("-pk")[:SHOWN])
    work = _work([document.key for document in documents])
    rows = (_row(document, *work.get(document.key, (0, None, ""))) for document in reversed(documents))
    columns = ["document", "pages", "references", "requests", "seconds", "status", "report"]
    return table("", columns, rows)


def _row(document: Document, requests: int, seconds: Any, status: str) -> list[Any]:
    name = Path(document.source).name if document.kind == "file" else document.source_shown
    report = _shown(Path(document.report_markdown.path)) if document.report_markdown else ""
    partial = " (partial)" if document.problem and report else ""
    took = f"{seconds.total_seconds():.1f}" if seconds is not None else ""
    return [name, document.pages, document.references, requests, took, status + partial, report]


def _shown(path: Path) -> str:
    """A path relative to the current directory, if it is below it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _work(keys: list[str]) -> dict[str, tuple[int, Any, str]]:
    """Requests, working time and status, by key."""
    executions = {e.pk: e for e in Execution.objects.filter(flow=FLOW, key__in=keys)}
    spent = (
        Attempt.objects.filter(execution_id__in=executions)
        .values_list("execution_id")
        .annotate(requests=Sum("cost"), took=Sum(F("ended_at") - F("started_at")))
        .order_by()
    )
    found = {pk: (cost, seconds) for pk, cost, seconds in spent}
    return {e.key: (*found.get(pk, (0, None)), e.status) for pk, e in executions.items()}
