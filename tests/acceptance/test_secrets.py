"""No secret leaves a fleet: every one is marked, everything that could quote them fails, and all that can be
seen of the fleet is searched for the marks."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import pytest

from project.program_secrets import PROGRAM_SECRETS
from queuemgr.local.private_servers import free_port
from queuemgr.operations.api_tokens import SCOPES
from tests import pdf_builder
from tests.acceptance import secret_outputs
from tests.acceptance.conftest import MakeFleet
from tests.acceptance.fleet import Fleet
from tests.acceptance.marked_secrets import WEBHOOK, EchoServer, Marks, environment
from tests.acceptance.secret_outputs import BrokerWatch, Site
from tests.acceptance.telling_steps import JOB

BATCH, TOLD, REFUSED = "some", "told", "refused"
"""As `telling_application` calls them."""


@dataclass(frozen=True)
class Thoroughness:
    """`told`: executions that tell what they know, each in another way and form and another part of it.
    `pages`: how many pages are looked at, and of so many executions the API is asked."""

    told: int
    pages: int
    executions: int
    commands: Sequence[Sequence[str]]
    queue_commands: Sequence[Sequence[str]]
    pool: str = "threads"
    generated: bool = True
    """Whether Django's key and the broker's password are in files, as `up` makes them, or are given."""
    forked: bool = True
    """Whether all programs are forked, of which the system shows no environment of their own."""


QUICK = Thoroughness(
    20, 12, 2, [["doctor"]],
    [["attempts", "--json"], ["export", "--jsonl", "{directory}/exported.jsonl"],
     ["failed", "export", "{directory}/failed.jsonl"], ["schedule", "show", REFUSED, "--json"],
     ["webhook", "show", WEBHOOK, "--json"]],
)  # fmt: skip
THOROUGH = Thoroughness(
    120, 120, 12, [["doctor"], ["doctor", "--json"], ["worker", "--explain"], ["worker", "--print"]],
    [*QUICK.queue_commands, ["stats", "--json"], ["show", "tell-1"], ["why", "tell-1"], ["limits"],
     ["audit", "--json"], ["batch", "list"], ["token", "list"], ["schedule", "list"],
     ["schedule", "show", TOLD], ["batch", "show", BATCH], ["batch", "results", BATCH]],
    pool="prefork", generated=False, forked=False,
)  # fmt: skip

CALLED = "SELECT COUNT(*) FROM queuemgr_execution WHERE key = 'called' AND finished_at IS NOT NULL"

SLOW = {"poll_interval": 3, "stale_interval": 60}
"""Seconds: the periodic jobs have nothing to do here."""

FLOWER_PATHS = (
    "", "workers", "tasks", "broker", "api/workers?refresh=1", "api/tasks", "api/queues/length", "metrics",
)  # fmt: skip
LOGIN = ("ada", "a-password-of-a-person")
TELLING = ("-m", "tests.acceptance.telling_application")
OPTIONS = ("-I", "tests.acceptance.telling_application")
TEXT = pdf_builder.text_content(*["Gates in rivers hold the water back until somebody opens them."] * 12)


@pytest.fixture
def echo() -> Iterator[EchoServer]:
    with EchoServer() as server:
        yield server
        server.shutdown()


def marked_fleet(make_fleet: MakeFleet, echo: EchoServer, generated: bool) -> tuple[Fleet, Marks]:
    fleet = make_fleet(
        allow_private_addresses="true", webhook_allow_private="true", debug="true",
        contact_email="a@b.example", **SLOW,
    )  # fmt: skip
    fleet.tolerate("")  # failing is the purpose
    marks, url = Marks(), fleet.environment.get("DATABASE_URL", "")
    if url and not urlsplit(url).password:
        password = quote(marks.new("DATABASE_URL"), safe="")
        fleet.environment["DATABASE_URL"] = url.replace("@", f":{password}@")
    fleet.environment = environment(marks, echo, fleet.environment)
    for name in ("admin-password", "flower-password"):
        (fleet.directory / name).write_text(marks.new(name))
    fleet.environment["FLOWER_UNAUTHENTICATED_API"] = "false"
    if generated:
        (fleet.directory / "private-broker").write_text(fleet.environment.pop("BROKER_URL"))
        del fleet.environment["DJANGO_SECRET_KEY"], marks.by_name["DJANGO_SECRET_KEY"]
    return fleet, marks


@pytest.mark.parametrize(
    "how", [QUICK, pytest.param(THOROUGH, marks=pytest.mark.slow_proof)], ids=["quick", "thorough"]
)
def test_no_secret_is_in_anything_that_a_failing_fleet_shows(
    make_fleet: MakeFleet, echo: EchoServer, how: Thoroughness
) -> None:
    fleet, marks = marked_fleet(make_fleet, echo, how.generated)
    broker = BrokerWatch(fleet.broker_url)
    sites = _start(fleet, marks, how)
    _fail(fleet, echo.url, how)
    outputs = dict(_outputs(fleet, marks, sites, how))
    outputs["broker"] = broker.close()
    bodies = b"\n".join(map(_unpacked, echo.bodies))
    outputs["traces and requests"] = bodies.decode(errors="replace")
    assert secret_outputs.missing(
        outputs, "page", "debug page", "metrics", "API get", "API post", "remote control", "broker", "Flower",
        "table", "file", "command line", "environment", "command doctor", "traces",
        "file worker.log", "file housekeeping.log", "file web.log",
    ) == []  # fmt: skip
    assert "refusing" in outputs["table queuemgr_scheduledrun"]
    assert (
        f"API get /api/v1/schedules/{TOLD}" in outputs and "called" in outputs["table queuemgr_batchcallback"]
    )
    assert len([name for name in outputs if name.startswith("page")]) >= how.pages
    assert "Traceback" in outputs["debug page"] and "evil.example" in outputs["debug page"]
    assert all(f"API get /api/v1/executions/{number}" in outputs for number in range(1, how.executions + 1))
    for name in ("file worker.log", "file web.log", "file housekeeping.log", "command doctor"):
        assert "***" in outputs[name] and "telling" in outputs[name], name
    assert "telling.tell" in outputs["broker"]
    assert any("webhook-signature" in request.lower() for request in echo.requests), "a webhook was sent"
    assert any("Authorization" in request for request in echo.requests), "the model was asked"
    assert any("api-key" in request.lower() for request in echo.requests), (
        "traces were sent with their header"
    )
    found = {name: {*marks.found_in(text)} - unknown_to_who_shows(name) for name, text in outputs.items()}
    assert {name: whose for name, whose in found.items() if whose} == {}


def unknown_to_who_shows(output: str) -> frozenset[str]:
    """The secrets that the web server is not given, where it shows what steps keep: it cannot mask those."""
    shows_what_steps_keep = output.startswith(
        ("API get /api/v1/executions", "page /admin/queuemgr/execution/")
    )
    everything = frozenset[str]().union(*PROGRAM_SECRETS.values())
    return everything - PROGRAM_SECRETS["web"] if shows_what_steps_keep else frozenset()


def _unpacked(body: bytes) -> bytes:
    return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body


def _start(fleet: Fleet, marks: Marks, how: Thoroughness) -> tuple[Site, Site]:
    """The fleet, its web server and Flower; logs in both formats."""
    worker = fleet.start_worker(4, how.pool, options=OPTIONS, wait=False)
    fleet.environment["SLUICE_LOG_FORMAT"] = "json"
    fleet.start_worker(1, "solo", "housekeeping", name="housekeeping", options=OPTIONS, wait=False)
    fleet.start_beat()
    web, flower = free_port(), free_port()
    python = (sys.executable, "-W", "ignore")
    start = fleet.start if how.forked else fleet.start_from_scratch
    start("web", *python, *TELLING, "serve", "--port", str(web), "--access-log")
    start("flower", *python, "-m", "celery", "-A", "project", "flower", f"--port={flower}")
    fleet.wait_for_workers(worker)
    if how.generated:
        marks.by_name["secret-key"] = (fleet.directory / "secret-key").read_text().strip()
    login = secret_outputs.basic("flower", marks.by_name["FLOWER_BASIC_AUTH"])
    return Site(f"http://127.0.0.1:{web}"), Site(f"http://127.0.0.1:{flower}", **login)


def _fail(fleet: Fleet, echo_url: str, how: Thoroughness) -> None:
    """Steps that tell what they know, and papers for which every service is asked and refuses."""
    fleet.celery().send_task(JOB, queue="housekeeping")
    fleet.start_program("tell", *TELLING, str(how.told)).end()
    paper = pdf_builder.written(fleet.directory, pdf_builder.document([TEXT]), "paper.pdf")
    unread = pdf_builder.written(fleet.directory, pdf_builder.document([b""]), "unread.pdf")
    no_pdf = fleet.directory / "admin.pdf"
    no_pdf.write_text((fleet.directory / "admin-password").read_text())
    fleet.queue("webhook", "add", WEBHOOK, echo_url, "--allow-private", "--flow", "none")
    fleet.queue("webhook", "test", WEBHOOK)
    fleet.command("enqueue", "--flow", "papers", *map(str, (paper, unread, no_pdf)), "10.5555/12345678")
    tried = "SELECT COUNT(DISTINCT execution_id) FROM queuemgr_attempt"
    fleet.wait_until("everything was tried", lambda: fleet.one(tried) >= how.told + 5, within=120)
    refused = "SELECT COUNT(*) FROM queuemgr_scheduledrun WHERE reason LIKE %s"
    fleet.wait_until("a schedule's run was refused", lambda: fleet.one(refused, "%refusing%"), within=60)
    fleet.wait_until("the batch called back", lambda: fleet.one(CALLED), within=60)
    analysed = "SELECT COUNT(*) FROM queuemgr_attempt WHERE step = 'analyse'"
    fleet.wait_until("the model refused", lambda: fleet.one(analysed) >= 1, within=60)
    no_pdf.unlink()


def _outputs(
    fleet: Fleet, marks: Marks, sites: tuple[Site, Site], how: Thoroughness
) -> Iterator[secret_outputs.Output]:
    web, flower = sites
    yield from secret_outputs.of_remote_control(fleet, 2)
    worker = fleet.one("SELECT name FROM queuemgr_worker WHERE name LIKE %s", "worker@%")
    for path in (*FLOWER_PATHS, f"worker/{worker}", f"api/workers?workername={worker}"):
        yield f"Flower {path}", flower.get(path)
    for words in how.commands:
        command = fleet.start_program("manage", *TELLING, *words)
        command.wait(120)
        yield f"command {' '.join(words)}", command.output + command.errors
    for words in how.queue_commands:
        named = [word.format(directory=fleet.directory) for word in words]
        yield f"command queue {' '.join(words)}", fleet.queue(*named)
    yield from _of_web(fleet, marks, web, how)
    yield from secret_outputs.of_rows(fleet)
    yield from secret_outputs.of_processes(fleet.directory, {process.pid for process in fleet.processes})
    yield from secret_outputs.of_files(fleet.directory)


def _of_web(fleet: Fleet, marks: Marks, web: Site, how: Thoroughness) -> Iterator[secret_outputs.Output]:
    fleet.environment |= {"DJANGO_SUPERUSER_PASSWORD": LOGIN[1]}
    made = ["manage.py", "createsuperuser", "--noinput", "--username", LOGIN[0], "--email", "a@b.example"]
    fleet.start_program("made", *made).end()
    scopes = [word for scope in SCOPES for word in ("--scope", scope)]
    token = fleet.queue("token", "create", "program", "--owner", LOGIN[0], *scopes).split()[-1]
    yield "metrics", web.get("/metrics", Authorization=f"Bearer {marks.by_name['SLUICE_METRICS_TOKEN']}")
    yield "debug page", web.get("/admin/", Host="evil.example")
    yield "page of health", web.get("/health/progress")
    web.log_in(*LOGIN)
    yield from web.crawl("/admin/queuemgr/attempt/", most=4)
    yield from web.crawl("/admin/", most=how.pages)
    yield from web.crawl("/papers/", most=3)
    worker = fleet.one("SELECT name FROM queuemgr_worker WHERE name LIKE %s", "worker@%")
    names = {
        "batches": BATCH,
        "schedules": TOLD,
        "webhooks": WEBHOOK,
        "limits": "llm",
        "queues": "prep.normal",
        "workers": worker,
    }
    program = Site(web.address, Authorization=f"Bearer {token}")
    yield from secret_outputs.of_api(program, how.executions, names)
